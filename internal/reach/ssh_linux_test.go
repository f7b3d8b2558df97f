package reach

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
	"github.com/hopbench/hopbench/internal/testutil"
)

// far is a host that has nothing but sshd: this one, in namespaces of its own, with
// folders that are empty. Its coordinator lives there, too.
type far struct {
	t    *testing.T
	dir  string // of keys and configurations
	port uint16
	sshd *exec.Cmd
}

const (
	farDir  = "/run/far"
	farHome = "/root"
)

// onFarHost runs the body of a test on such a host.
func onFarHost(t *testing.T, body func(*far)) {
	t.Helper()
	testutil.Need(t, os.Getuid() == 0, "root, as which an sshd of its own runs")
	_, err := os.Stat("/usr/sbin/sshd")
	testutil.Need(t, err == nil, "sshd (openssh-server)")
	_, err = exec.LookPath("ssh")
	testutil.Need(t, err == nil, "ssh (openssh-client)")
	testutil.InNamespaces(t, syscall.CLONE_NEWNS|syscall.CLONE_NEWPID|syscall.CLONE_NEWNET, func(t *testing.T) {
		t.Helper()
		testutil.OK(t, syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
		testutil.OK(t, syscall.Mount("proc", "/proc", "proc", 0, ""))
		for _, dir := range []string{"/run", "/tmp", farHome} {
			testutil.OK(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755"))
		}
		command(t, "ip", "link", "set", "lo", "up")
		f := &far{t: t, dir: farDir, port: 2222}
		for _, dir := range []string{farDir, "/run/sshd"} {
			testutil.OK(t, os.Mkdir(dir, 0o755))
		}
		command(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f.path("host"))
		command(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f.path("user"))
		command(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f.path("stranger"))
		f.authorize("")
		f.know("host.pub")
		f.identify("user")
		f.startSSHD()
		defer f.stopSSHD()
		body(f)
	})
}

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}

func (f *far) path(name string) string { return filepath.Join(f.dir, name) }

func (f *far) write(name, text string) {
	f.t.Helper()
	testutil.OK(f.t, os.WriteFile(f.path(name), []byte(text), 0o755))
}

func (f *far) read(name string) string {
	f.t.Helper()
	text, err := os.ReadFile(f.path(name))
	testutil.OK(f.t, err)
	return string(text)
}

// authorize lets the user's key in, with options of authorized_keys(5).
func (f *far) authorize(options string) {
	f.write("authorized", options+" "+f.read("user.pub"))
}

// know has ssh know a key as the host's.
func (f *far) know(public string) {
	f.write("known", fmt.Sprintf("[127.0.0.1]:%d %s", f.port, f.read(public)))
}

// identify puts an ssh in the way of the system's that logs in with a key, and has
// nothing of this machine's configuration.
func (f *far) identify(key string) {
	testutil.OK(f.t, os.MkdirAll(f.path("bin"), 0o755))
	f.write("config", fmt.Sprintf("IdentityFile %s\nIdentitiesOnly yes\nIdentityAgent none\nUserKnownHostsFile %s\nGlobalKnownHostsFile none\n", f.path(key), f.path("known")))
	f.write("bin/ssh", fmt.Sprintf("#!/bin/sh\nexec /usr/bin/ssh -F %s \"$@\"\n", f.path("config")))
	testutil.OK(f.t, os.Setenv("PATH", f.path("bin")+":/usr/sbin:/usr/bin:/sbin:/bin"))
}

func (f *far) startSSHD() {
	f.t.Helper()
	f.write("sshd_config", fmt.Sprintf("Port %d\nListenAddress 127.0.0.1\nListenAddress ::1\nHostKey %s\nAuthorizedKeysFile %s\nPidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication yes\n",
		f.port, f.path("host"), f.path("authorized")))
	f.sshd = exec.Command("/usr/sbin/sshd", "-D", "-e", "-f", f.path("sshd_config"))
	f.sshd.Env = []string{"PATH=/usr/bin:/bin"}
	var log bytes.Buffer
	f.sshd.Stderr = &log
	testutil.OK(f.t, f.sshd.Start())
	f.t.Cleanup(func() {
		if f.t.Failed() {
			f.t.Logf("sshd:\n%s", log.String())
		}
	})
	eventually(f.t, "sshd listens", func() bool {
		c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(f.port))))
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

func (f *far) stopSSHD() {
	_ = f.sshd.Process.Kill()
	_ = f.sshd.Wait()
}

// eventually waits until something is so, for as long as a test may last.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for range 3000 {
		if so() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("not so in a minute: %s", what)
}

// left is what the host has that it had not at the beginning: files, and processes
// that live but this one and sshd.
func (f *far) left() []string {
	var all []string
	for _, dir := range []string{"/tmp", farHome} {
		entries, err := os.ReadDir(dir)
		testutil.OK(f.t, err)
		for _, e := range entries {
			all = append(all, filepath.Join(dir, e.Name()))
		}
	}
	processes, err := filepath.Glob("/proc/[0-9]*/stat")
	testutil.OK(f.t, err)
	for _, p := range processes {
		text, err := os.ReadFile(p)
		if err != nil {
			continue // it has ended
		}
		pid, rest, _ := strings.Cut(string(text), " ")
		name, rest, _ := strings.Cut(rest, ") ")
		if id, _ := strconv.Atoi(pid); id == os.Getpid() || id == f.sshd.Process.Pid || strings.HasPrefix(rest, "Z") {
			continue
		}
		all = append(all, "process "+pid+" "+name+")")
	}
	return all
}

func (f *far) nothingLeft() {
	f.t.Helper()
	var last []string
	defer func() {
		if f.t.Failed() {
			f.t.Logf("left: %q", last)
		}
	}()
	eventually(f.t, "nothing is left", func() bool { last = f.left(); return len(last) == 0 })
}

// dial reaches the agent of the host.
func (f *far) dial() io.ReadWriteCloser {
	f.t.Helper()
	c, err := Dial(f.t.Context(), sshEnd(f.port), "")
	testutil.OK(f.t, err)
	return c
}

func TestSSH(t *testing.T) {
	onFarHost(t, func(f *far) {
		began := time.Now()
		c := f.dial()
		t.Logf("an agent over ssh in %v", time.Since(began))
		for _, l := range f.left() {
			if !strings.HasPrefix(l, "process") {
				t.Errorf("while the agent runs there is %s", l)
			}
		}
		works(t, c)
		f.nothingLeft()
	})
}

// Each thing that is wrong is one sentence, at once, and leaves nothing behind.
func TestSSHRefusals(t *testing.T) {
	onFarHost(t, func(f *far) {
		self, err := os.ReadFile("/proc/self/exe")
		testutil.OK(t, err)
		restore := func() {
			f.authorize("")
			f.know("host.pub")
			f.identify("user")
		}
		mount := func(dir, options string, flags uintptr) {
			testutil.OK(t, syscall.Mount("tmpfs", dir, "tmpfs", flags, options))
		}
		for _, c := range []struct {
			name    string
			spoil   func(*inventory.Endpoint)
			restore func()
			want    []string
		}{
			{"a password is asked for", func(*inventory.Endpoint) { f.identify("stranger") }, nil, []string{"accepts no key of yours", "ssh-copy-id"}},
			{"an unknown host", func(*inventory.Endpoint) { f.write("known", "") }, nil, []string{"host key is not known yet", "ssh -p 2222 127.0.0.1"}},
			{"another host key", func(*inventory.Endpoint) { f.know("stranger.pub") }, nil, []string{"host key is not the one that is known", "ssh-keygen -R"}},
			{"nobody listens", func(e *inventory.Endpoint) { e.Reach.Port = 1 }, nil, []string{"Connection refused"}},
			{"an account that runs nothing", func(*inventory.Endpoint) { f.authorize(`command="echo This account is not available; exit 1"`) }, nil, []string{`"This account is not available"`}},
			{"PowerShell", func(*inventory.Endpoint) {
				f.authorize(`command="echo exec : The term exec is not recognized as the name >&2; exit 1"`)
			}, nil, []string{"Windows", "tls://"}},
			{"another system", func(*inventory.Endpoint) { f.authorize(`command="echo hopbench: here Plan9 pdp11 gzip; cat"`) }, nil, []string{"no program for", "Plan9", "tls://"}},
			{"a CPU without a program", func(*inventory.Endpoint) { f.authorize(`command="echo hopbench: here Linux s390x gzip; cat"`) }, nil, []string{"linux/s390x", "hopbench-agent-linux-s390x", "binary"}},
			{"a program for another CPU", func(e *inventory.Endpoint) {
				e.Binary = f.path("other")
				other := bytes.Clone(self)
				other[18], other[19] = 0xff, 0xfe // e_machine of elf(5)
				f.write("other", string(other))
			}, func() { testutil.OK(t, os.Remove(f.path("other"))) }, []string{"does not run there", "for linux/"}},
			{"no such program", func(e *inventory.Endpoint) { e.Binary = "/none" }, nil, []string{"/none", "no such file"}},
			{"folders that run nothing", func(*inventory.Endpoint) {
				mount("/tmp", "", syscall.MS_NOEXEC)
				mount(farHome, "", syscall.MS_NOEXEC)
			}, func() {
				testutil.OK(t, errors.Join(syscall.Unmount("/tmp", 0), syscall.Unmount(farHome, 0)))
			}, []string{"/tmp lets no program run (noexec)", "/root lets no program run", "TMPDIR"}},
			{"full folders", func(*inventory.Endpoint) {
				mount("/tmp", "size=1m", 0)
				mount(farHome, "size=1m", syscall.MS_NOEXEC)
			}, func() {
				testutil.OK(t, errors.Join(syscall.Unmount("/tmp", 0), syscall.Unmount(farHome, 0)))
			}, []string{"/tmp is full", "/root is full", "make room"}},
		} {
			e := sshEnd(f.port)
			c.spoil(&e)
			conn, err := Dial(t.Context(), e, "")
			if err == nil {
				conn.Close()
			}
			wantError(t, err, append(c.want, "vm2")...)
			t.Logf("%s: %v", c.name, err)
			if c.restore != nil {
				c.restore()
			}
			restore()
			f.nothingLeft()
			if t.Failed() {
				t.FailNow()
			}
		}
		// One folder that takes it is enough.
		mount("/tmp", "", syscall.MS_NOEXEC)
		works(t, f.dial())
		testutil.OK(t, syscall.Unmount("/tmp", 0))
		f.nothingLeft()

		testutil.OK(t, os.Setenv("PATH", farHome))
		_, err = Dial(t.Context(), sshEnd(f.port), "")
		wantError(t, err, "OpenSSH's client")
	})
}

// A host whose login shell says things first is reached all the same.
func TestSSHBabble(t *testing.T) {
	onFarHost(t, func(f *far) {
		f.authorize(`command="echo welcome; printf 'today: '; eval \"$SSH_ORIGINAL_COMMAND\""`)
		works(t, f.dial())
		f.nothingLeft()
	})
}

// The user's configuration says how a host is reached, over jump hosts too, and what
// asks there is refused as well.
func TestSSHJumpHost(t *testing.T) {
	onFarHost(t, func(f *far) {
		direct := f.read("config")
		f.write("known", f.read("known")+fmt.Sprintf("[::1]:%d %s", f.port, f.read("host.pub")))
		e := inventory.Endpoint{Name: "vm2", Reach: inventory.Reach{Scheme: inventory.ReachSSH, Host: "behind", User: "root"}}
		behind := fmt.Sprintf("\nHost behind\nHostName ::1\nPort %[1]d\nProxyJump 127.0.0.1:%[1]d\n", f.port)
		f.write("config", direct+behind)
		c, err := Dial(t.Context(), e, "")
		testutil.OK(t, err)
		works(t, c)
		f.nothingLeft()

		identity := "IdentityFile " + f.path("user") + "\n"
		f.write("config", strings.Replace(direct, identity, "", 1)+"Host 127.0.0.1\nIdentityFile "+f.path("stranger")+behind+identity)
		_, err = Dial(t.Context(), e, "")
		wantError(t, err, "accepts no key of yours")
		f.nothingLeft()
	})
}

// What is cancelled while it begins leaves nothing behind.
func TestSSHCancelled(t *testing.T) {
	onFarHost(t, func(f *far) {
		for seed := range uint64(testutil.Repeat(3, 20)) {
			ctx, cancel := context.WithCancel(t.Context())
			timer := time.AfterFunc(rand.N(600*time.Millisecond), cancel)
			c, err := Dial(ctx, sshEnd(f.port), "")
			if timer.Stop() {
				cancel()
			}
			if err == nil {
				testutil.OK(t, c.Close())
			} else if !errors.Is(err, context.Canceled) {
				t.Errorf("seed %d: %v", seed, err)
			}
			f.nothingLeft()
		}
	})
}

// startCoordinator starts one in a process group of its own.
func (f *far) startCoordinator() (*exec.Cmd, *bufio.Reader) {
	f.t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), coordinatorEnv+"="+strconv.Itoa(int(f.port)))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	testutil.OK(f.t, err)
	testutil.OK(f.t, cmd.Start())
	return cmd, bufio.NewReader(out)
}

// awaitLoad reads what a coordinator says until its agent is at work.
func (f *far) awaitLoad(out *bufio.Reader) {
	f.t.Helper()
	for line := ""; line != "measures\n"; {
		var err error
		line, err = out.ReadString('\n')
		testutil.OK(f.t, err)
	}
}

// A coordinator that is killed at any moment leaves nothing on the far host: no
// process, no file.
func TestCoordinatorKilled(t *testing.T) {
	onFarHost(t, func(f *far) {
		var reached, measured int
		var slowest time.Duration
		seeds := testutil.Repeat(4, 100)
		for seed := range seeds {
			r := rand.New(rand.NewPCG(16, uint64(seed)))
			cmd, out := f.startCoordinator()
			if seed%4 == 3 { // some when the agent is at work for sure
				f.awaitLoad(out)
			}
			time.Sleep(time.Duration(r.Int64N(int64(1500 * time.Millisecond)))) // the random moment
			testutil.OK(t, cmd.Process.Kill())
			killed := time.Now()
			rest, _ := io.ReadAll(out)
			_ = cmd.Wait()
			if bytes.Contains(rest, []byte("reached")) || seed%4 == 3 {
				reached++
			}
			if bytes.Contains(rest, []byte("measures")) || seed%4 == 3 {
				measured++
			}
			f.nothingLeft()
			slowest = max(slowest, time.Since(killed))
		}
		t.Logf("%d coordinators killed: %d had reached their agent, %d measured; nothing left each time, after %v at most", seeds, reached, measured, slowest)
	})
}

// A second coordinator is told who has the host, and does not disturb the first.
func TestTwoCoordinators(t *testing.T) {
	onFarHost(t, func(f *far) {
		cmd, out := f.startCoordinator()
		f.awaitLoad(out)
		_, err := agent.Connect(t.Context(), f.dial())
		wantError(t, err, "another coordinator measures with this host (process "+strconv.Itoa(cmd.Process.Pid)+" on ", "try again when that has ended")
		line, err := out.ReadString('\n')
		testutil.OK(t, err)
		if line != "measures\n" {
			t.Errorf("the first says %q", line)
		}
		testutil.OK(t, syscall.Kill(cmd.Process.Pid, syscall.SIGINT))
		_, err = io.ReadAll(out)
		testutil.OK(t, err)
		testutil.OK(t, cmd.Wait())
		// Who comes now has it, also for the other end of its paths.
		first, err := agent.Connect(t.Context(), f.dial())
		testutil.OK(t, err)
		works(t, f.dial())
		testutil.OK(t, first.Close())
		f.nothingLeft()
	})
}

// Ctrl-C at the coordinator's terminal reaches its whole process group: the agent ends
// in order, and nothing is left.
func TestCoordinatorInterrupted(t *testing.T) {
	onFarHost(t, func(f *far) {
		cmd, out := f.startCoordinator()
		f.awaitLoad(out)
		testutil.OK(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGINT))
		rest, err := io.ReadAll(out)
		testutil.OK(t, err)
		testutil.OK(t, cmd.Wait())
		if !strings.Contains(string(rest), "ended: ") || !strings.Contains(string(rest), "interrupt") {
			t.Errorf("the coordinator says %q", rest)
		}
		f.nothingLeft()
	})
}
