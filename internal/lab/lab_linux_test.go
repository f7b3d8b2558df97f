package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/lab/apply"
	"github.com/hopbench/hopbench/internal/lab/filter"
	"github.com/hopbench/hopbench/internal/lab/labtest"
	"github.com/hopbench/hopbench/internal/linkem"
	"github.com/hopbench/hopbench/internal/testutil"
)

// needLab skips where no lab can be made, with the reason that Start gives.
func needLab(t testing.TB) {
	t.Helper()
	l, err := Start(t.Context(), Topology{Nodes: []Node{{Name: "a"}}}, Options{})
	if err != nil {
		testutil.Need(t, false, fmt.Sprintf("a machine on which labs can be made: %v", err))
	}
	testutil.OK(t, l.Close())
}

func needProgram(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		_, err := exec.LookPath(name)
		testutil.Need(t, err == nil, "the program "+name)
	}
}

func startLab(t testing.TB, built Topology) *Lab {
	t.Helper()
	needLab(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	l, err := Start(ctx, built, Options{NodeCommand: []string{"echo-agent"}})
	testutil.OK(t, err)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if said := l.stderr.String(); said != "" {
			t.Logf("the lab's processes said: %s", said)
		}
	})
	return l
}

// output runs a program in a node and returns what it printed, on both
// outputs, and its exit status.
func output(t testing.TB, l *Lab, node string, argv ...string) (string, int) {
	t.Helper()
	r, w, err := os.Pipe()
	testutil.OK(t, err)
	defer r.Close()
	printed := make(chan string, 1)
	go func() {
		b, err := io.ReadAll(r)
		if err != nil {
			b = append(b, err.Error()...)
		}
		printed <- string(b)
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	code, err := l.Exec(ctx, node, Command{Argv: argv, Stdout: w, Stderr: w})
	w.Close()
	text := <-printed
	if err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, text)
	}
	return text, code
}

// must is output of a program that has to succeed.
func must(t testing.TB, l *Lab, node string, argv ...string) string {
	t.Helper()
	text, code := output(t, l, node, argv...)
	if code != 0 {
		t.Fatalf("%v in %s ended with status %d:\n%s", argv, node, code, text)
	}
	return text
}

// chain is source - router-1 - … - router-n - destination.
//
//	source ──10.0.0.0/30── router-1 ──10.0.1.0/30── … ── destination
func chain(routers int, c *linkem.Config) Topology {
	t := Topology{Nodes: []Node{{Name: "source", Agent: true, CongestionControl: "cubic"}}}
	previous := "source"
	for i := range routers + 1 {
		next := fmt.Sprintf("router-%d", i+1)
		if i == routers {
			next = "destination"
			t.Nodes = append(t.Nodes, Node{Name: next, Agent: true, CongestionControl: "cubic"})
		} else {
			t.Nodes = append(t.Nodes, Node{Name: next, Forward: true})
		}
		t.Links = append(t.Links, Link{
			A:         End{Node: previous, Interface: "right", Address: labtest.Address(0, i, 1)},
			B:         End{Node: next, Interface: "left", Address: labtest.Address(0, i, 2)},
			Emulation: c,
		})
		previous = next
	}
	return t
}

func TestAgentsAnswer(t *testing.T) {
	l := startLab(t, chain(1, nil))
	for _, node := range []string{"source", "destination"} {
		conn, err := l.Control(node)
		testutil.OK(t, err)
		testutil.OK(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
		fmt.Fprintln(conn, "hello from", node)
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || line != "hello from "+node+"\n" {
			t.Errorf("%s answered %q, %v", node, line, err)
		}
	}
	if _, err := l.Control("router-1"); err == nil {
		t.Error("a router has no agent, but Control gave a connection")
	}
	if err := l.Err(); err != nil {
		t.Errorf("a lab that is well says %v", err)
	}
}

func TestReachesThroughRouters(t *testing.T) {
	needProgram(t, "ping", "ip")
	for _, test := range []struct {
		name string
		link *linkem.Config
	}{
		{"veth", nil},
		{"link emulator", &linkem.Config{Forward: linkem.Direction{Delay: time.Millisecond}, Backward: linkem.Direction{Delay: time.Millisecond}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := startLab(t, chain(3, test.link))
			text := must(t, l, "source", "ping", "-n", "-c", "2", "-i", "0.05", "-W", "2", "10.0.3.2")
			if !strings.Contains(text, "ttl=61") {
				t.Errorf("three routers leave a TTL of 61 of 64, but ping says:\n%s", text)
			}
			must(t, l, "router-2", "ping", "-n", "-c", "1", "-W", "2", "10.0.0.1")

			var addresses []struct {
				IfName    string `json:"ifname"`
				MTU       int    `json:"mtu"`
				OperState string `json:"operstate"`
				AddrInfo  []struct {
					Family    string `json:"family"`
					Local     string `json:"local"`
					PrefixLen int    `json:"prefixlen"`
				} `json:"addr_info"`
			}
			testutil.OK(t, json.Unmarshal([]byte(must(t, l, "router-1", "ip", "-j", "address")), &addresses))
			got := map[string]string{}
			for _, a := range addresses {
				for _, i := range a.AddrInfo {
					got[a.IfName] = fmt.Sprintf("%s/%d mtu %d %s", i.Local, i.PrefixLen, a.MTU, i.Family)
				}
				if a.OperState == "DOWN" { // a TAP device's is UNKNOWN
					t.Errorf("%s is down although the lab is ready", a.IfName)
				}
			}
			if got["left"] != "10.0.0.2/30 mtu 1500 inet" || got["right"] != "10.0.1.1/30 mtu 1500 inet" {
				t.Errorf("addresses of router-1: %v", got)
			}
		})
	}
}

// readableSelf is a copy of the test binary that every user may run: the build
// directory of `go test` may be closed to others.
func readableSelf(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "hopbench-lab-test")
	testutil.OK(t, err)
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	self, err := os.ReadFile(selfExecutable)
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err == nil {
		// A program that this one forks meanwhile would have the file open, too, and
		// what is open to be written cannot be run.
		syscall.ForkLock.RLock()
		err = os.WriteFile(dir+"/lab.test", self, 0o755)
		syscall.ForkLock.RUnlock()
	}
	testutil.OK(t, err)
	return dir + "/lab.test"
}

func TestUnprivileged(t *testing.T) {
	t.Parallel() // it waits for most of its time
	if os.Geteuid() != 0 {
		return // all tests are run unprivileged
	}
	needProgram(t, "setpriv")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tests := []string{"TestAgentsAnswer", "TestReachesThroughRouters", "TestEgressIsMetered", "TestDividingRules", "TestExec", "TestSwitchInPlace", "TestPublishedLab", "TestPublishedLabIsForItsNamespaces", "TestCloseLeavesNothing", "TestNAT", "TestVXLAN", "TestSoftwareSwitch", "TestOuterPorts"}
	cmd := exec.CommandContext(ctx, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", readableSelf(t),
		"-test.run=^("+strings.Join(tests, "|")+")$", "-test.v")
	cmd.Dir = "/"
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("as user 65534: %v\n%s", err, text)
	}
	for _, name := range tests {
		testutil.Need(t, strings.Contains(string(text), "--- PASS: "+name+" "), "an unprivileged user who may run "+name)
	}
}

func TestTwoLabsAtOnce(t *testing.T) {
	needProgram(t, "ping", "ip")
	one, two := startLab(t, chain(1, nil)), startLab(t, chain(1, nil))
	must(t, one, "source", "ip", "link", "set", "right", "down")
	must(t, two, "source", "ping", "-n", "-c", "1", "-W", "2", "10.0.1.2")
	if text, code := output(t, one, "source", "ping", "-n", "-c", "1", "-W", "1", "10.0.1.2"); code == 0 {
		t.Errorf("a link that is down carries packets:\n%s", text)
	}
	testutil.OK(t, one.Close())
	must(t, two, "source", "ping", "-n", "-c", "1", "-W", "2", "10.0.1.2")
	if err := two.Err(); err != nil {
		t.Error(err)
	}
}

func TestStartNamesWhatFailed(t *testing.T) {
	needLab(t)
	impossible := chain(1, nil)
	impossible.Nodes[1].Sysctls = map[string]string{"net.ipv4.no_such_setting": "1"}
	badAlgorithm := chain(0, nil)
	badAlgorithm.Nodes[0].CongestionControl = "nosuch"
	for name, test := range map[string]struct {
		built   Topology
		options Options
		want    string
	}{
		"sysctl":             {impossible, Options{NodeCommand: []string{"echo-agent"}}, "sysctl router-1 net.ipv4.no_such_setting=1"},
		"no command":         {chain(0, nil), Options{}, "NodeCommand"},
		"no executable":      {chain(0, nil), Options{NodeCommand: []string{"x"}, Executable: "/nonexistent"}, "/nonexistent"},
		"congestion control": {badAlgorithm, Options{NodeCommand: []string{"echo-agent"}}, `no congestion control "nosuch"`},
		"invalid":            {Topology{Nodes: []Node{{Name: ""}}}, Options{}, "node name"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := Start(t.Context(), test.built, test.options)
			if err == nil {
				l.Close()
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q in it", err, test.want)
			}
		})
	}
	if children := childrenOfSelf(t); len(children) > 0 {
		t.Errorf("these run: %v", children)
	}
}

func TestAgentThatEndsIsReported(t *testing.T) {
	needLab(t)
	l, err := Start(t.Context(), chain(0, nil), Options{NodeCommand: []string{"-test.run=^$", "-no-such-flag"}})
	if err == nil {
		defer l.Close()
		<-l.Done()
		err = l.Err()
	}
	if !strings.Contains(err.Error(), "ended with status 2") {
		t.Errorf("got %v", err)
	}
}

// withoutTAP runs the test that calls it again where there is no /dev/net/tun, and is
// true there.
func withoutTAP(t *testing.T) bool {
	t.Helper()
	needLab(t)
	needProgram(t, "sh", "mount")
	if os.Getenv("HOPBENCH_LAB_TEST_NO_TAP") != "" {
		return true
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", `mount -t tmpfs none /dev/net && exec "$0" -test.run="^$1\$" -test.v`, readableSelf(t), t.Name())
	cmd.Env = append(os.Environ(), "HOPBENCH_LAB_TEST_NO_TAP=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
	}
	if text, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(text), "--- PASS") {
		t.Errorf("%v\n%s", err, text)
	}
	return false
}

// Without /dev/net/tun link emulators use packet sockets on veth pairs.
func TestLinksWithoutTAP(t *testing.T) {
	needProgram(t, "ping")
	if !withoutTAP(t) {
		return
	}
	delay := linkem.Direction{Delay: 2 * time.Millisecond}
	l := startLab(t, chain(1, &linkem.Config{Forward: delay, Backward: delay}))
	text := must(t, l, "source", "ping", "-n", "-c", "3", "-i", "0.05", "-W", "2", "10.0.1.2")
	var least float64
	_, after, _ := strings.Cut(text, "mdev = ")
	if _, err := fmt.Sscanf(after, "%f/", &least); err != nil || least < 8 {
		t.Errorf("two links of 2 ms each way give at least 8 ms:\n%s", text)
	}
	if facts := l.Facts(); !slices.ContainsFunc(facts, func(f string) bool { return strings.Contains(f, "packet sockets") }) {
		t.Errorf("nothing is said of the lost fast path: %q", facts)
	}
}

// Losses hit single segments, also of packets that a hop forwards, whatever
// carries the frames.
func TestLossesHitSingleSegments(t *testing.T) {
	const full = 1514
	withoutTAP(t) // and here with it
	built, _, err := idpsTopology(t, ".", "mode: off, loss: 0.5%")
	testutil.OK(t, err)
	l := startLab(t, built)
	for _, sender := range []string{"client", "server"} {
		if got := attack(t, l, sender, "harmless", "text"); got != [2]string{"all", "all"} {
			t.Errorf("from %s: sender and receiver say %q", sender, got)
		}
	}
	all, err := l.Counters(t.Context())
	testutil.OK(t, err)
	for _, c := range all.Links {
		if c.IDPS == nil {
			continue
		}
		for _, d := range []linkem.DirectionCounters{c.Forward, c.Backward} {
			if d.Bytes < talkBytes || d.Bytes > full*d.Frames {
				t.Errorf("%d frames have %d bytes", d.Frames, d.Bytes)
			}
		}
	}
}

// A supervisor that Go ends says why first, and then what each of its goroutines did.
func TestTailKeepsTheReason(t *testing.T) {
	r, w := io.Pipe()
	kept := tailOf(r)
	const reason = "fatal error: newosproc\n"
	for _, text := range []string{reason, strings.Repeat("goroutine 1 [running]:\n", 1000), "the end\n"} {
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	<-kept.done
	said := kept.String()
	if !strings.HasPrefix(said, reason) || !strings.HasSuffix(said, "the end\n") || len(said) > headBytes+tailBytes+10 {
		t.Errorf("kept %d bytes: %s", len(said), said)
	}
}

// Limits that are real, set in a user namespace of the test's own.
func TestStartSaysWhichLimit(t *testing.T) {
	if key := os.Getenv("HOPBENCH_LAB_TEST_LIMIT"); key != "" {
		l, err := Start(t.Context(), chain(1, nil), Options{NodeCommand: []string{"echo-agent"}})
		if err == nil {
			l.Close()
			t.Fatal("it started")
		}
		if !strings.Contains(err.Error(), key) {
			t.Errorf("no word of %s: %v", key, err)
		}
		t.Log(err)
		return
	}
	needLab(t)
	needProgram(t, "sh", "setpriv")
	binary := readableSelf(t)
	for key, limited := range map[string]string{
		apply.MaxUserNamespaces: "echo 0 > " + filter.SysctlPath(apply.MaxUserNamespaces) + " && exec",
		apply.MaxNetNamespaces:  "echo 1 > " + filter.SysctlPath(apply.MaxNetNamespaces) + " && exec",
		"CAP_SETFCAP":           "exec setpriv --inh-caps=-setfcap --bounding-set=-setfcap",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		script := limited + ` "$0" -test.run='^TestStartSaysWhichLimit$' -test.v`
		cmd := exec.CommandContext(ctx, "sh", "-c", script, binary)
		cmd.Env = append(os.Environ(), "HOPBENCH_LAB_TEST_LIMIT="+key)
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
		}
		if text, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(text), "--- PASS") {
			t.Errorf("%s: %v\n%s", key, err, text)
		} else {
			t.Logf("%s:\n%s", key, text)
		}
	}
}
