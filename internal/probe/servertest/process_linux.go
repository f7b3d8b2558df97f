package servertest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/testutil"
)

// A test binary is also the processes that some of its tests need: a server, or a
// client that does one test.
const (
	processEnv = "HOPBENCH_TEST_PROCESS" // server or client
	filesEnv   = "HOPBENCH_TEST_FILES"   // limit of open files
)

// init runs what a parent test asked for instead of the tests.
func init() {
	role := os.Getenv(processEnv)
	if role == "" {
		return
	}
	err := limitFiles()
	if err == nil {
		switch role {
		case "server":
			err = processServer()
		case "client":
			err = processClient()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func limitFiles() error {
	text := os.Getenv(filesEnv)
	if text == "" {
		return nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return err
	}
	return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n})
}

// processServer prints its address and serves until standard input ends.
func processServer() error {
	s, err := probe.NewServer(probe.ServerOptions{})
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // its end is all that matters
		cancel()
	}()
	fmt.Println(ln.Addr())
	return s.Serve(ctx, ln)
}

// processClient does the request of standard input and prints its answer and
// what this process needed.
func processClient() error {
	var req probe.Request
	if err := json.NewDecoder(os.Stdin).Decode(&req); err != nil {
		return err
	}
	out, err := probe.Run(context.Background(), req, nil)
	if err != nil {
		return err
	}
	use, err := UsageOf(os.Getpid())
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(Answer{Outcome: out, Usage: use})
}

// Answer is what a client process brought back.
type Answer struct {
	Outcome measurement.Outcome
	Usage   Usage
}

// Usage is what a process needed at most.
type Usage struct {
	ResidentBytes int64
	Threads       int64
}

// UsageOf is what a process that runs has needed so far.
func UsageOf(pid int) (Usage, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Usage{}, err
	}
	field := func(name string) int64 {
		for line := range bytes.Lines(text) {
			if key, rest, ok := strings.Cut(string(line), ":"); ok && key == name {
				n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
				if err == nil {
					return n
				}
			}
		}
		return -1
	}
	u := Usage{ResidentBytes: field("VmHWM") << 10, Threads: field("Threads")}
	if u.ResidentBytes <= 0 || u.Threads <= 0 {
		return u, errors.New("no VmHWM or Threads in /proc/PID/status")
	}
	return u, nil
}

// process is this test binary in a role.
func process(role string) *exec.Cmd {
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), processEnv+"="+role)
	return c
}

// Client is a process that is yet to start, for one request.
func Client(t *testing.T, req probe.Request) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(req)
	testutil.OK(t, err)
	c := process("client")
	c.Stdin = bytes.NewReader(text)
	return c
}

// StartServer runs a server in a process of its own, with so many open files
// if files is not 0.
func StartServer(t *testing.T, files int) (*exec.Cmd, netip.AddrPort) {
	t.Helper()
	c := process("server")
	if files > 0 {
		c.Env = append(c.Env, fmt.Sprintf("%s=%d", filesEnv, files))
	}
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	testutil.OK(t, err)
	out, err := c.StdoutPipe()
	testutil.OK(t, err)
	testutil.OK(t, c.Start())
	t.Cleanup(func() {
		_ = in.Close() // asks it to end
		if err := c.Wait(); err != nil {
			t.Errorf("server process: %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	testutil.OK(t, err)
	target, err := netip.ParseAddrPort(strings.TrimSpace(line))
	testutil.OK(t, err)
	return c, target
}

// RunLimitedClient does one request in a process of its own that may have so
// many open files, and returns what it prints when it fails.
func RunLimitedClient(t *testing.T, files int, req probe.Request) error {
	t.Helper()
	var printed bytes.Buffer
	c := Client(t, req)
	c.Env = append(c.Env, fmt.Sprintf("%s=%d", filesEnv, files))
	c.Stderr = &printed
	if err := c.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, printed.String())
	}
	return nil
}

// ContainsAll says whether what a process printed has all of the parts.
func ContainsAll(text string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}

// RunClient does one request in a process of its own.
func RunClient(t *testing.T, req probe.Request) Answer {
	t.Helper()
	c := Client(t, req)
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("client process: %v", err)
	}
	var a Answer
	testutil.OK(t, json.Unmarshal(out, &a))
	return a
}
