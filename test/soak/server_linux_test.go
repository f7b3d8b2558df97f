package soak

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/testutil"
)

// server is "hopbench serve" as a process.
type server struct {
	program string
	v4, v6  netip.AddrPort // v6 is invalid where there is no IPv6
	ftp     uint16
	pid     int
	started time.Time
	group   *group // nil where memory is not limited
	log     *serverLog
}

// of is the server's address of the same family as a client's.
func (s *server) of(client netip.Addr) netip.AddrPort {
	if client.Is6() {
		return s.v6
	}
	return s.v4
}

var serving = regexp.MustCompile(`^serving on .*:([0-9]+),`)

func build(t *testing.T) (program string) {
	t.Helper()
	dir := t.TempDir()
	// The server's user passes through.
	testutil.OK(t, os.Chmod(filepath.Dir(dir), 0o755))
	program = filepath.Join(dir, "hopbench")
	if out, err := exec.Command("go", "build", "-o", program, "github.com/hopbench/hopbench/cmd/hopbench").CombinedOutput(); err != nil {
		t.Fatalf("build hopbench: %v\n%s", err, out)
	}
	return program
}

// startServer starts a program, or that of this source.
func startServer(t *testing.T, program string) *server {
	t.Helper()
	if program == "" {
		program = build(t)
	}
	s := &server{program: program, log: &serverLog{ended: make(chan struct{})}}
	v6 := network(t)
	var err error
	if s.group, err = newGroup(t); err != nil {
		t.Logf("memory is not limited: %v", err)
	}
	s.ftp, err = testutil.FreePort()
	testutil.OK(t, err)
	arguments := []string{s.program, "serve", "--open", "--port", "0", "--ftp", strconv.Itoa(int(s.ftp))}
	if !inside() {
		arguments = append(arguments, "--bind", "127.0.0.1")
	}
	limits, err := json.Marshal(serverLimits(t, s.group))
	testutil.OK(t, err)
	c := exec.Command("/proc/self/exe", arguments...)
	c.Env = append(os.Environ(), launchEnv+"="+string(limits))
	c.Dir = "/"
	said, err := c.StderrPipe()
	testutil.OK(t, err)
	testutil.OK(t, newStarter(t, 0).start(c))
	lines := bufio.NewReader(said)
	line, err := lines.ReadString('\n')
	go s.log.follow(lines)
	t.Cleanup(func() {
		if err := c.Process.Signal(os.Interrupt); err != nil {
			t.Errorf("the server ended before it was told to: %v", err)
		}
		<-s.log.ended
		if err := c.Wait(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	found := serving.FindStringSubmatch(line)
	if found == nil {
		t.Fatalf("the server says %q (%v)", line, err)
	}
	port, err := strconv.ParseUint(found[1], 10, 16)
	testutil.OK(t, err)
	s.v4 = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port))
	if v6 {
		s.v6 = netip.AddrPortFrom(netip.IPv6Loopback(), uint16(port))
	}
	s.pid, s.started = c.Process.Pid, time.Now()
	return s
}

// sample is what the server holds at a moment.
type sample struct {
	at          time.Duration
	resident    float64 // bytes
	group       float64 // bytes of its control group without files, 0 if it has none
	descriptors int
	threads     int
}

func (s sample) String() string {
	return fmt.Sprintf("%6.0f s  %6.1f MB  %6.1f MB in its group  %4d descriptors  %3d threads", s.at.Seconds(), s.resident/1e6, s.group/1e6, s.descriptors, s.threads)
}

var (
	residentLine = regexp.MustCompile(`(?m)^VmRSS:\s*([0-9]+) kB$`)
	threadsLine  = regexp.MustCompile(`(?m)^Threads:\s*([0-9]+)$`)
)

// sample ends the test when the server has ended.
func (s *server) sample(t *testing.T) sample {
	t.Helper()
	now, err := s.look()
	if err != nil {
		select { // what it said last comes a moment after its end
		case <-s.log.ended:
		case <-time.After(5 * time.Second):
		}
		if s.group != nil && s.group.killed() {
			err = fmt.Errorf("the kernel has killed it for more than %d MB", maxMemory>>20)
		}
		t.Fatalf("the server is gone: %v; it said\n%s", err, s.log.last())
	}
	return now
}

func (s *server) look() (now sample, err error) {
	dir := filepath.Join("/proc", strconv.Itoa(s.pid))
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return now, err
	}
	descriptors, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		return now, err
	}
	now.at, now.descriptors = time.Since(s.started), len(descriptors)
	resident, threads := residentLine.FindSubmatch(status), threadsLine.FindSubmatch(status)
	if resident == nil || threads == nil {
		return now, errors.New("it is a zombie") // whose status has no memory
	}
	kilobytes, err := strconv.Atoi(string(resident[1]))
	if err != nil {
		return now, err
	}
	now.resident = 1024 * float64(kilobytes)
	if now.threads, err = strconv.Atoi(string(threads[1])); err != nil {
		return now, err
	}
	if s.group != nil {
		now.group, err = s.group.used()
	}
	return now, err
}

// idle is the least that the server holds within the time that it may need to be
// rid of the last of well-meant clients.
func (s *server) idle(t *testing.T) sample {
	t.Helper()
	least := s.sample(t)
	for deadline := time.Now().Add(6 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if now := s.sample(t); now.descriptors < least.descriptors {
			least = now
		}
	}
	return least
}

// settled waits until the server holds no more descriptors than idle did, for
// as long as its deadlines may take, and returns what it holds then.
func (s *server) settled(t *testing.T, idle sample) sample {
	t.Helper()
	for deadline := time.Now().Add(settle); ; time.Sleep(100 * time.Millisecond) {
		now := s.sample(t)
		if now.descriptors <= idle.descriptors || time.Now().After(deadline) {
			return now
		}
	}
}
