package ftp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/testutil"
)

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// serve runs a server on loopback that has "small.bin" of size bytes, and checks
// that it leaves nothing.
func serve(t *testing.T, size int64, change func(*ServerOptions)) netip.AddrPort {
	t.Helper()
	return serveAt(t, "127.0.0.1:0", size, change, nil)
}

// serveAt is serve at an address, with bounds that prepare may change.
func serveAt(t *testing.T, address string, size int64, change func(*ServerOptions), prepare func(*Server)) netip.AddrPort {
	t.Helper()
	ln, err := net.Listen("tcp", address)
	testutil.OK(t, err)
	o := ServerOptions{
		File:    func(name string) (int64, bool) { return size, name == "small.bin" },
		Content: NewContent(), MaxSessions: 100, MaxDuration: time.Minute,
	}
	if change != nil {
		change(&o)
	}
	s := NewServer(ln, o)
	if prepare != nil {
		prepare(s)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve() }()
	t.Cleanup(func() {
		s.Close()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return ln.Addr().(*net.TCPAddr).AddrPort()
}

// endsOf has the end of each transfer sent to a channel.
func endsOf(o *ServerOptions, ended chan<- Transfer) {
	o.OnTransfer = func(x Transfer) {
		if x.Ended {
			ended <- x
		}
	}
}

func options(at netip.AddrPort, segments int) ClientOptions {
	return ClientOptions{
		Server: at, User: "anonymous", Password: "x", Path: "/small.bin", Segments: segments,
		Dial: func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", a.String())
		},
	}
}

func download(t *testing.T, o ClientOptions) (Result, error) {
	t.Helper()
	ctx := testContext(t)
	c, err := Open(ctx, o)
	if err != nil {
		return Result{}, err
	}
	defer c.Close()
	size, err := c.Size()
	if err != nil {
		return Result{}, err
	}
	return c.Download(ctx, size)
}

func TestDownload(t *testing.T) {
	const size = 40_000_003
	at := serve(t, size, nil)
	content := NewContent()
	for _, segments := range []int{1, 2, 7, 64} {
		r, err := download(t, options(at, segments))
		if err != nil {
			t.Fatalf("%d segments: %v", segments, err)
		}
		if r.Bytes != size || r.CRC32 != content.CRC(0, size) || len(r.Segments) != segments || r.Took <= 0 {
			t.Errorf("%d segments: %+v", segments, r)
		}
		var offset int64
		for _, s := range r.Segments {
			if s.Offset != offset || s.CRC32 != content.CRC(s.Offset, s.Bytes) || s.Local == "" || s.Remote == "" {
				t.Errorf("%d segments: %+v", segments, s)
			}
			offset += s.Bytes
		}
		counted := 0.0
		for _, n := range r.Bins.Bytes {
			counted += n
		}
		if offset != size || counted != size {
			t.Errorf("%d segments: of %d bytes, %d in segments, %v in bins", segments, size, offset, counted)
		}
	}
}

func TestUpload(t *testing.T) {
	const size = 20_000_001
	content := NewContent()
	ended := make(chan Transfer, 1)
	at := serve(t, size, func(o *ServerOptions) {
		o.Store = true
		endsOf(o, ended)
	})
	ctx := testContext(t)
	c, err := Open(ctx, options(at, 1))
	testutil.OK(t, err)
	defer c.Close()
	testutil.OK(t, c.Upload(ctx, content, size))
	x := <-ended
	if x.Err != nil || x.Bytes != size || x.CRC32 != content.CRC(0, size) || x.Took <= 0 || len(x.Bins.Bytes) == 0 {
		t.Errorf("%+v", x)
	}
	// One byte short is not the file.
	if err := c.Upload(ctx, content, size-1); err == nil || !strings.Contains(err.Error(), "CRC-32") {
		t.Errorf("a file that is too short: %v", err)
	}
	<-ended
	if err := c.Upload(ctx, content, size+1); err == nil {
		t.Error("a file that is too long was stored")
	}
	<-ended
}

func TestWhomTheServerServes(t *testing.T) {
	other := netip.MustParseAddr("192.0.2.1")
	for name, c := range map[string]struct {
		server func(*ServerOptions)
		client func(*ClientOptions)
		want   string
	}{
		"another address": {func(o *ServerOptions) { o.Client = other }, nil, "421 \"this server is there for another client"},
		"wrong password":  {func(o *ServerOptions) { o.User, o.Password = "anonymous", "y" }, nil, "wrong user or password"},
		"wrong user":      {func(o *ServerOptions) { o.User, o.Password = "u", "x" }, nil, "wrong user or password"},
		"not anonymous":   {nil, func(o *ClientOptions) { o.User = "root" }, "log in as anonymous"},
		"no such file":    {nil, func(o *ClientOptions) { o.Path = "/../etc/passwd" }, "does not exist"},
		"sessions":        {func(o *ServerOptions) { o.MaxSessions = 2 }, func(o *ClientOptions) { o.Segments = 3 }, "421 \"there are 2 sessions already"},
		"two lines":       {nil, func(o *ClientOptions) { o.Path = "/small.bin\r\nDELE x" }, "one line"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(serve(t, 1000, c.server), 1)
			if c.client != nil {
				c.client(&o)
			}
			if _, err := download(t, o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want an error that says %q", err, c.want)
			}
		})
	}
}

func TestServerIsReadOnly(t *testing.T) {
	at := serve(t, 1000, nil)
	for command, code := range map[string]string{
		"DELE small.bin": "550", "MKD x": "550", "RMD x": "550", "STOR small.bin": "550", "APPE small.bin": "550",
		"PORT 192,0,2,1,0,80": "421", "EPRT |1|192.0.2.1|80|": "421", "SITE CHMOD 777 small.bin": "500", "RETR ../../etc/passwd": "550",
		"XCRC small.bin": "250", "SIZE small.bin": "213 1000", "MODE Z": "50", "LIST": "550",
	} {
		t.Run(command, func(t *testing.T) {
			c := call(t, at)
			c.logIn()
			c.ask(command, code)
		})
	}
	t.Run("without a login", func(t *testing.T) {
		c := call(t, at)
		c.reply()
		c.ask("RETR small.bin", "530")
	})
	t.Run("a long command", func(t *testing.T) {
		c := call(t, at)
		c.reply()
		_, _ = io.WriteString(c, "USER "+strings.Repeat("x", 100_000)+"\r\n") // it may be refused before the last byte
		if got, _ := c.lines.ReadString('\n'); strings.HasPrefix(got, "331") {
			t.Errorf("it is answered with %s", got)
		}
	})
}

func TestPortsOfTheServer(t *testing.T) {
	// A range of two ports next to each other that are free now.
	var ports Ports
	for range 50 {
		a, err := Listen(context.Background(), netip.Addr{}, Ports{})
		testutil.OK(t, err)
		first := a.Addr().(*net.TCPAddr).Port
		b, err := Listen(context.Background(), netip.Addr{}, Ports{first + 1, first + 1})
		_ = a.Close()
		if err != nil {
			continue
		}
		_ = b.Close()
		ports = Ports{first, first + 1}
		break
	}
	at := serve(t, 1_000_000, func(o *ServerOptions) { o.Ports = ports })
	r, err := download(t, options(at, 2))
	testutil.OK(t, err)
	for _, s := range r.Segments {
		if port := int(netip.MustParseAddrPort(s.Remote).Port()); port != ports.First && port != ports.Last {
			t.Errorf("data came from port %d, not one of %+v", port, ports)
		}
	}
	held, err := Listen(context.Background(), netip.Addr{}, ports)
	testutil.OK(t, err)
	defer func() { _ = held.Close() }()
	second, err := Listen(context.Background(), netip.Addr{}, ports)
	testutil.OK(t, err)
	defer func() { _ = second.Close() }()
	if _, err := download(t, options(at, 1)); err == nil || !strings.Contains(err.Error(), "no port from") {
		t.Errorf("without a free port: %v", err)
	}
}

// A server that closes in the middle ends the client, and the other way round.
func TestEndInTheMiddle(t *testing.T) {
	t.Run("server", func(t *testing.T) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		testutil.OK(t, err)
		s := NewServer(ln, ServerOptions{
			File: func(string) (int64, bool) { return MaxFileBytes, true }, Content: NewContent(), MaxSessions: 4, MaxDuration: time.Minute,
		})
		var serving sync.WaitGroup
		serving.Go(func() { _ = s.Serve() })
		defer serving.Wait()
		ctx := testContext(t)
		c, err := Open(ctx, options(ln.Addr().(*net.TCPAddr).AddrPort(), 4))
		testutil.OK(t, err)
		defer c.Close()
		stop := endAfterAMegabyte(c, s.Close)
		defer stop()
		if _, err := c.Download(ctx, MaxFileBytes); err == nil {
			t.Error("a file of which a part came is whole")
		}
	})
	t.Run("client", func(t *testing.T) {
		ended := make(chan Transfer, 4)
		at := serve(t, MaxFileBytes, func(o *ServerOptions) {
			endsOf(o, ended)
		})
		ctx, cancel := context.WithCancel(testContext(t))
		c, err := Open(ctx, options(at, 1))
		testutil.OK(t, err)
		defer c.Close()
		stop := endAfterAMegabyte(c, cancel)
		defer stop()
		if _, err := c.Download(ctx, MaxFileBytes); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want that it was cancelled", err)
		}
		if x := <-ended; x.Err == nil || !x.Cut {
			t.Errorf("the server says %v, cut %v", x.Err, x.Cut)
		}
	})
}

// An end that closes while a data connection begins ends all that began with it.
func TestEndAtTheBeginning(t *testing.T) {
	for name, closing := range map[string]func(p *pool) (prepare func(*net.TCPConn) (net.Conn, error), watch func()){
		"it is watched": func(p *pool) (func(*net.TCPConn) (net.Conn, error), func()) { return nil, p.close },
		"it is prepared": func(p *pool) (func(*net.TCPConn) (net.Conn, error), func()) {
			return func(c *net.TCPConn) (net.Conn, error) { p.close(); return c, nil }, func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			testutil.OK(t, err)
			defer ln.Close()
			c, err := net.Dial("tcp", ln.Addr().String())
			testutil.OK(t, err)
			p, watched := &pool{}, 0
			prepare, begin := closing(p)
			d, err := newDataConn(c, p, new(atomic.Int64), prepare, func(net.Conn, *sockets.Conn) func() {
				watched++
				begin()
				return func() { watched-- }
			})
			if err == nil {
				err = d.Close()
			}
			if _, open := c.Write([]byte{0}); !errors.Is(err, net.ErrClosed) || watched != 0 || open == nil {
				t.Errorf("%v; %d are watched still; %v", err, watched, open)
			}
		})
	}
}

// endAfterAMegabyte calls end once the client has moved so much.
func endAfterAMegabyte(c *Client, end func()) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() {
		for ctx.Err() == nil && c.Moved() < 1<<20 {
			time.Sleep(time.Millisecond)
		}
		end()
	})
	return func() { cancel(); watching.Wait() }
}
