package ftp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/testutil"
)

// caller is a client's control connection.
type caller struct {
	t testing.TB
	net.Conn
	lines  *bufio.Reader
	dialer net.Dialer // of data connections
}

func call(t testing.TB, at netip.AddrPort) *caller {
	t.Helper()
	c, err := net.Dial("tcp", at.String())
	testutil.OK(t, err)
	t.Cleanup(func() { _ = c.Close() })
	testutil.OK(t, c.SetDeadline(time.Now().Add(40*time.Second)))
	return &caller{t: t, Conn: c, lines: bufio.NewReader(c)}
}

// reply is the next line.
func (c *caller) reply() string {
	c.t.Helper()
	line, err := c.lines.ReadString('\n')
	if err != nil {
		c.t.Fatalf("after %q: %v", line, err)
	}
	return strings.TrimSpace(line)
}

// ask sends a command and wants a reply that begins as said.
func (c *caller) ask(command, want string) string {
	c.t.Helper()
	if _, err := io.WriteString(c, command+"\r\n"); err != nil {
		c.t.Fatal(err)
	}
	got := c.reply()
	if !strings.HasPrefix(got, want) {
		c.t.Fatalf("%s: %s, want %s", command, got, want)
	}
	return got
}

func (c *caller) logIn() {
	c.t.Helper()
	if got := c.reply(); !strings.HasPrefix(got, "220") {
		c.t.Fatal(got)
	}
	c.ask("USER ftp", "331")
	c.ask("PASS x", "230")
}

// open opens a data connection.
func (c *caller) open() net.Conn {
	c.t.Helper()
	var port uint16
	_, offer, _ := strings.Cut(c.ask("EPSV", "229"), "(|||")
	if _, err := fmt.Sscanf(offer, "%d|)", &port); err != nil {
		c.t.Fatal(err)
	}
	host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
	d, err := c.dialer.Dial("tcp", net.JoinHostPort(host, fmt.Sprint(port)))
	testutil.OK(c.t, err)
	c.t.Cleanup(func() { _ = d.Close() })
	return d
}

// data opens a data connection and asks for a file over it.
func (c *caller) data(command string) net.Conn {
	c.t.Helper()
	d := c.open()
	c.ask(command, "150")
	return d
}

// fetch reads what comes of a file until the test ends.
func (c *caller) fetch() {
	d := c.data("RETR small.bin")
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(io.Discard, d) })
	c.t.Cleanup(func() { _ = d.Close(); reading.Wait() })
}

// rest is what comes until the server closes.
func (c *caller) rest() string {
	c.t.Helper()
	said, err := io.ReadAll(c.lines)
	if err != nil && !strings.Contains(err.Error(), "reset") {
		c.t.Errorf("the session goes on: %v after %q", err, said)
	}
	return string(said)
}

func descriptors(t testing.TB) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skipf("needs /proc/self/fd to count descriptors; this is %s", runtime.GOOS)
	}
	entries, err := os.ReadDir("/proc/self/fd")
	testutil.OK(t, err)
	return len(entries)
}

// However often a session asks for a listener, it has one, and none in the end.
func TestPassiveListenersAreClosed(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
		for _, commands := range [][]string{{"PASV"}, {"EPSV"}, {"PASV", "EPSV"}, {"PROT P", "PASV"}, {"PROT P", "EPSV"}} {
			t.Run(at+" "+strings.Join(commands, " "), func(t *testing.T) {
				server := serveAt(t, at, 1000, nil, nil)
				before := descriptors(t)
				c := call(t, server)
				c.logIn()
				for range 1000 / len(commands) {
					for _, command := range commands {
						c.ask(command, "")
					}
				}
				if now := descriptors(t); now > before+3 { // both ends of the session, and a listener
					t.Errorf("%d descriptors before, %d with a session", before, now)
				}
				_ = c.Close()
				now := 0
				for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
					if now = descriptors(t); now <= before {
						return
					}
				}
				t.Errorf("%d descriptors before, %d after", before, now)
			})
		}
	}
}

// A server that ends waits for transfers, and for no client that does nothing.
func TestSessionsOfAServerThatEnds(t *testing.T) {
	var s *Server
	at := serveAt(t, "127.0.0.1:0", 30_000_000, nil, func(started *Server) { s = started })
	idle, busy := call(t, at), call(t, at)
	idle.logIn()
	busy.logIn()
	data := busy.data("RETR small.bin")
	_, err := io.CopyN(io.Discard, data, 1000) // it is in progress
	testutil.OK(t, err)
	s.Drain()
	if said := idle.rest(); !strings.Contains(said, "421 this server is ending") {
		t.Errorf("without a transfer: %q", said)
	}
	if n, err := io.Copy(io.Discard, data); err != nil || n != 30_000_000-1000 {
		t.Errorf("%d bytes more, %v", n, err)
	}
	testutil.OK(t, data.Close())
	if said := busy.rest(); !strings.Contains(said, "226 ") || !strings.Contains(said, "421 this server is ending") {
		t.Errorf("after its transfer: %q", said)
	}
}

// A client that sends something now and then holds no session.
func TestSlowClients(t *testing.T) {
	short := func(s *Server) {
		s.bounds = bounds{login: 30 * time.Second, command: 30 * time.Second, quiet: 30 * time.Second, window: 30 * time.Second}
	}
	const soon = 200 * time.Millisecond
	// again sends text every little while until the server has closed.
	again := func(c *caller, text string) {
		var sending sync.WaitGroup
		sending.Go(func() {
			for {
				if _, err := io.WriteString(c, text); err != nil {
					return
				}
				time.Sleep(soon / 20)
			}
		})
		c.t.Cleanup(func() { _ = c.Close(); sending.Wait() })
	}
	for name, test := range map[string]struct {
		bound func(*Server)
		act   func(*caller)
		want  string
	}{
		"login":            {func(s *Server) { s.bounds.login = soon }, func(c *caller) { again(c, "NOOP\r\n") }, "421 log in within 200ms"},
		"login by bytes":   {func(s *Server) { s.bounds.login = soon }, func(c *caller) { again(c, "N") }, "421 log in within 200ms"},
		"command by bytes": {func(s *Server) { s.bounds.command = soon }, func(c *caller) { c.logIn(); again(c, "N") }, "421 a command must be complete within 200ms"},
		"empty commands":   {func(s *Server) { s.bounds.quiet = soon }, func(c *caller) { c.logIn(); again(c, "\n") }, "421 no data was transferred for 200ms"},
		"no transfer that moves": {func(s *Server) { s.bounds.quiet = soon }, func(c *caller) {
			c.logIn()
			c.ask("REST 1000000000", "350")
			_ = c.data("RETR small.bin")
			again(c, "NOOP\r\n")
		}, "421 no data was transferred for 200ms"},
		"data not read": {func(s *Server) { s.bounds.window, s.bounds.quiet = soon, soon }, func(c *caller) {
			c.logIn()
			_ = c.data("RETR small.bin")
		}, "moved"},
		"for ever": {func(s *Server) { s.o.MaxDuration = soon }, func(c *caller) {
			c.logIn()
			c.fetch()
		}, "421 a session lasts 200ms at most"},
		"for ever, with a command waiting": {func(s *Server) { s.o.MaxDuration = soon }, func(c *caller) {
			c.logIn()
			c.fetch()
			_, _ = io.WriteString(c, "NOOP\r\n") // the test sees what comes of it
		}, "421 a session lasts 200ms at most"},
	} {
		t.Run(name, func(t *testing.T) {
			at := serveAt(t, "127.0.0.1:0", 1_000_000_000, nil, func(s *Server) { short(s); test.bound(s) })
			c := call(t, at)
			test.act(c)
			if said := c.rest(); !strings.Contains(said, test.want) {
				t.Errorf("the server said %q, want %q", said, test.want)
			}
		})
	}
}

// A data connection that a client stores by the byte ends.
func TestTrickleIsNoTransfer(t *testing.T) {
	ended := make(chan Transfer, 1)
	at := serveAt(t, "127.0.0.1:0", 1_000_000, func(o *ServerOptions) {
		o.Store = true
		endsOf(o, ended)
	}, func(s *Server) { s.bounds.window = 200 * time.Millisecond })
	c := call(t, at)
	c.logIn()
	d := c.data("STOR small.bin")
	for {
		if _, err := d.Write([]byte{0}); err != nil {
			break
		}
		select {
		case x := <-ended:
			if x.Err == nil || !errors.Is(x.Err, os.ErrDeadlineExceeded) || !strings.Contains(x.Err.Error(), "it must be 2000") {
				t.Errorf("it ended with %v", x.Err)
			}
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	if x := <-ended; x.Err == nil {
		t.Error("a file of some bytes was stored")
	}
}

func TestSessionsPerClient(t *testing.T) {
	at := serve(t, 1000, func(o *ServerOptions) { o.MaxSessionsPerClient = 2 })
	first, second := call(t, at), call(t, at)
	first.logIn()
	second.logIn()
	if said := call(t, at).rest(); !strings.HasPrefix(said, "421 there are 2 sessions of 127.0.0.1/32 already") {
		t.Errorf("the third is told %q", said)
	}
	second.ask("NOOP", "200")
	first.ask("QUIT", "221")
	for deadline := time.Now().Add(20 * time.Second); ; { // a moment until it is gone
		if got := call(t, at).reply(); strings.HasPrefix(got, "220") {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("after one has left: %s", got)
		}
	}
}

// shared is a log that is written and read by several goroutines.
type shared struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// A panic ends one session, with its stack in the log, and nothing is left of it.
func TestPanicEndsTheSession(t *testing.T) {
	boom := func(bool) { panic("boom \x1b[2J") }
	for name, test := range map[string]struct {
		change func(*ServerOptions)
		act    func(*caller)
	}{
		"in a command": {func(o *ServerOptions) { o.File = func(string) (int64, bool) { boom(true); return 0, false } }, func(c *caller) {
			_, _ = io.WriteString(c, "SIZE small.bin\r\n") // the log tells
		}},
		"as a transfer begins": {func(o *ServerOptions) { o.OnTransfer = func(x Transfer) { boom(!x.Ended) } }, func(c *caller) {
			_, _ = io.WriteString(c, "RETR small.bin\r\n")
		}},
		"in a transfer": {func(o *ServerOptions) { o.Watch = func(net.Conn, *sockets.Conn) func() { boom(true); return nil } }, func(c *caller) {
			c.open()
			_, _ = io.WriteString(c, "RETR small.bin\r\n")
		}},
		"at its end": {func(o *ServerOptions) {
			o.Watch = func(net.Conn, *sockets.Conn) func() { return func() { boom(true) } }
		}, func(c *caller) {
			_, _ = io.Copy(io.Discard, c.data("RETR small.bin"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var log shared
			at := serve(t, 1000, func(o *ServerOptions) {
				test.change(o)
				o.Log = slog.New(slog.NewTextHandler(&log, nil))
			})
			other := call(t, at)
			other.logIn()
			c := call(t, at)
			c.logIn()
			test.act(c)
			_ = c.rest()
			other.ask("NOOP", "200")
			for _, want := range []string{`panic="boom  [2J"`, "TestPanicEndsTheSession", "client=127.0.0.1"} {
				if said := log.String(); !strings.Contains(said, want) || strings.Contains(said, "\x1b") {
					t.Errorf("no %q in the log, or the escape: %s", want, said)
				}
			}
		})
	}
}

// Stock clients fetch over IPv6, where they ask with EPSV.
func TestStockClientsOverIPv6(t *testing.T) {
	const size = 3_000_001
	at := serveAt(t, "[::1]:0", size, nil, nil)
	url := fmt.Sprintf("ftp://%v/small.bin", at)
	for _, argv := range [][]string{
		{"curl", "-sS", "--max-time", "30", url},
		{"lftp", "-c", "set net:max-retries 1; set net:timeout 10; cat " + url},
	} {
		t.Run(argv[0], func(t *testing.T) {
			_, err := exec.LookPath(argv[0])
			testutil.Need(t, err == nil, "the program "+argv[0])
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			text, err := exec.CommandContext(ctx, argv[0], argv[1:]...).Output()
			if err != nil || len(text) != size || crc32.ChecksumIEEE(text) != NewContent().CRC(0, size) {
				t.Errorf("%d bytes, %v", len(text), err)
			}
		})
	}
}

// tired fails to accept at first, as a host without memory does.
type tired struct {
	net.Listener
	failed bool
}

func (l *tired) Accept() (net.Conn, error) {
	if !l.failed {
		l.failed = true
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: syscall.ENOMEM}
	}
	return l.Listener.Accept()
}

func TestAcceptGoesOn(t *testing.T) {
	at := serveAt(t, "127.0.0.1:0", 1000, nil, func(s *Server) { s.door = &tired{Listener: s.door} })
	call(t, at).logIn()
}

// Whoever finds the port of a data connection first neither gets the data nor keeps
// the client from it.
func TestStrangersDataConnection(t *testing.T) {
	testutil.Need(t, runtime.GOOS == "linux", "all of 127.0.0.0/8 on loopback")
	at := serve(t, 1000, nil)
	c := call(t, at)
	c.logIn()
	var stranger net.Conn
	c.dialer.Control = func(_, address string, _ syscall.RawConn) error {
		var err error
		other := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
		stranger, err = other.Dial("tcp", address)
		return err
	}
	d := c.data("RETR small.bin")
	defer func() { _ = stranger.Close() }()
	if data, err := io.ReadAll(d); err != nil || len(data) != 1000 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	if data, err := io.ReadAll(stranger); len(data) > 0 {
		t.Errorf("a stranger got %d bytes, %v", len(data), err)
	}
}
