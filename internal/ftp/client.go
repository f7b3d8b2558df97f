package ftp

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/netip"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	library "github.com/jlaffaye/ftp"
	"golang.org/x/sync/errgroup"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/printable"
	"github.com/hopbench/hopbench/internal/sockets"
)

// ClientOptions say what a Client transfers. All but Watch are required.
type ClientOptions struct {
	Server         netip.AddrPort
	User, Password string
	Path           string
	// Segments of the file that are fetched at the same time, each in a session
	// of its own, up to MaxSegments.
	Segments int
	// Dial opens a connection to an address of the server.
	Dial func(ctx context.Context, address netip.AddrPort) (net.Conn, error)
	// Watch is told of each data connection and its socket; what it returns is called before
	// that connection is closed.
	Watch func(net.Conn, *sockets.Conn) func()
}

// Client is a client that is logged in and ready to transfer.
type Client struct {
	o        ClientOptions
	sessions []*library.ServerConn
	// data are the addresses of each session's data connection.
	data     []addresses
	greeting string
	pool     pool
	release  func() bool // of the context
	began    sync.Once
	started  time.Time
	moved    atomic.Int64
}

// Result is a transfer as the receiver counted it.
type Result struct {
	// Started is when the first RETR or STOR was sent.
	Started time.Time
	// Took is the time from then to the last byte.
	Took     time.Duration
	Bytes    int64
	CRC32    uint32 // of the whole file
	Bins     measurement.Bins
	Segments []Segment
}

// Segment is a part of a file on a data connection of its own.
type Segment struct {
	Offset, Bytes int64
	CRC32         uint32
	Local, Remote string
}

// addresses are those of a connection's two ends.
type addresses struct{ local, remote string }

// maxSessionsAtOnce bounds the sessions that are being opened at the same time.
const maxSessionsAtOnce = 32

// Open connects and logs in, once for each segment. The Client lives as long as
// ctx at most; Close ends it.
func Open(ctx context.Context, o ClientOptions) (*Client, error) {
	if strings.ContainsAny(o.Path+o.User+o.Password, "\r\n\x00") {
		return nil, errors.New("a path, user or password cannot have more than one line")
	}
	if o.Segments < 1 || o.Segments > MaxSegments {
		return nil, fmt.Errorf("%d segments, must be 1 to %d", o.Segments, MaxSegments)
	}
	c := &Client{o: o, sessions: make([]*library.ServerConn, o.Segments), data: make([]addresses, o.Segments)}
	c.release = context.AfterFunc(ctx, c.pool.close)
	// The first goes alone: what it is refused, all would be.
	err := c.login(ctx, 0)
	if err == nil {
		err = c.together(1, o.Segments, maxSessionsAtOnce, func(i int) error { return c.login(ctx, i) })
	}
	if err != nil {
		c.abort()
		return nil, c.cause(ctx, err)
	}
	return c, nil
}

// together does something for each number of a range at the same time, up to
// atOnce of them. The first that fails ends all, and is the error.
func (c *Client) together(from, to, atOnce int, do func(i int) error) error {
	var group errgroup.Group
	group.SetLimit(atOnce)
	var once sync.Once
	var first error
	for i := from; i < to; i++ {
		group.Go(func() error {
			if err := do(i); err != nil {
				once.Do(func() { first = err; c.pool.close() })
			}
			return nil
		})
	}
	_ = group.Wait() // each keeps its error itself
	return first
}

// login opens session number i.
func (c *Client) login(ctx context.Context, i int) error {
	var control *controlConn
	dial := func(_, address string) (net.Conn, error) {
		if control != nil {
			return c.dialData(ctx, i, address)
		}
		conn, err := c.dial(ctx, c.o.Server)
		if err == nil {
			control, err = newControlConn(conn, &c.pool, c.begin)
		}
		if err != nil {
			return nil, err
		}
		return control, nil
	}
	session, err := library.Dial(c.o.Server.String(), library.DialWithDialFunc(dial), library.DialWithShutTimeout(replyTimeout))
	if err != nil {
		return fmt.Errorf("connect to the FTP server: %w", err)
	}
	c.sessions[i] = session
	if i == 0 {
		c.greeting = greetingText(control.greeting)
	}
	if err := session.Login(c.o.User, c.o.Password); err != nil {
		return fmt.Errorf("log in as %q: %w", c.o.User, err)
	}
	return nil
}

func (c *Client) dial(ctx context.Context, address netip.AddrPort) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	return c.o.Dial(ctx, address)
}

// dialData connects to the port that a server named, and always to the host
// that the session is with: PASV may name any, which would turn the client
// against others (RFC 2577, section 3), or the one that NAT has hidden.
func (c *Client) dialData(ctx context.Context, i int, address string) (net.Conn, error) {
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%w: data connection to %q", ErrMalformed, address)
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", text)
	if err != nil || port == 0 {
		return nil, fmt.Errorf("%w: data connection to port %q", ErrMalformed, text)
	}
	conn, err := c.dial(ctx, netip.AddrPortFrom(c.o.Server.Addr(), uint16(port)))
	if err != nil {
		return nil, err
	}
	c.data[i] = addresses{conn.LocalAddr().String(), conn.RemoteAddr().String()}
	return newDataConn(conn, &c.pool, &c.moved, nil, c.o.Watch)
}

// begin is called when a transfer is about to be asked for.
func (c *Client) begin() { c.began.Do(func() { c.started = time.Now() }) }

// maxGreeting bounds what is kept of a server's greeting.
const maxGreeting = 100

// greetingText is the first line of a server's greeting, for people.
func greetingText(b []byte) string {
	line, _, _ := strings.Cut(string(b), "\n")
	line = strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(line), "220"), "-")
	return printable.Line(strings.TrimSpace(line), maxGreeting)
}

// Greeting is what the server says of itself.
func (c *Client) Greeting() string { return c.greeting }

// Started is when the transfer began; it must have.
func (c *Client) Started() time.Time { return c.started }

// Moved is how many bytes the data connections have carried so far, in both directions.
func (c *Client) Moved() int64 { return c.moved.Load() }

// Size asks the server for the size of the file in bytes.
func (c *Client) Size() (int64, error) {
	n, err := c.sessions[0].FileSize(c.o.Path)
	if err != nil {
		return 0, &told{fmt.Errorf("ask for the size of %s: %w", c.o.Path, err)}
	}
	if n == 0 {
		return 0, fmt.Errorf("%s is empty: name a file that takes long enough for a rate", c.o.Path)
	}
	if n < 0 || n > MaxFileBytes {
		return 0, fmt.Errorf("%w: %s has %d bytes, must be 1 to %d", ErrMalformed, c.o.Path, n, int64(MaxFileBytes))
	}
	return n, nil
}

// Download fetches the file, which has size bytes, in the segments asked for,
// and counts and digests what comes.
func (c *Client) Download(ctx context.Context, size int64) (Result, error) {
	n := int64(c.o.Segments)
	if size < n {
		return Result{}, fmt.Errorf("a file of %d bytes cannot have %d segments", size, n)
	}
	parts := make([]part, n)
	for i := range parts {
		p := &parts[i]
		p.Offset = size * int64(i) / n
		p.Bytes = size*int64(i+1)/n - p.Offset
		p.last = i == len(parts)-1
	}
	err := c.together(0, len(parts), len(parts), func(i int) error {
		if err := c.fetch(i, &parts[i]); err != nil {
			return fmt.Errorf("segment %d of %d: %w", i+1, n, err)
		}
		return nil
	})
	if err != nil {
		return Result{}, c.cause(ctx, err)
	}
	return c.join(size, parts), nil
}

// part is a segment in progress.
type part struct {
	Segment
	last   bool
	ended  time.Duration // since the start
	series series
}

// join puts the segments together.
func (c *Client) join(size int64, parts []part) Result {
	r := Result{Started: c.started, Bytes: size}
	var all []*series
	for i := range parts {
		p := &parts[i]
		r.Took = max(r.Took, p.ended)
		r.CRC32 = Join(r.CRC32, p.CRC32, p.Bytes)
		r.Segments = append(r.Segments, p.Segment)
		all = append(all, &p.series)
	}
	r.Bins = sum(all...)
	return r
}

// fetch does one segment in session number i.
func (c *Client) fetch(i int, p *part) error {
	response, err := c.sessions[i].RetrFrom(c.o.Path, uint64(p.Offset))
	if err != nil {
		return fmt.Errorf("fetch from byte %d on: %w", p.Offset, c.orEnded(i, err))
	}
	p.Local, p.Remote = c.data[i].local, c.data[i].remote
	err = c.receive(response, p)
	closed := response.Close()
	reply := new(textproto.Error)
	switch replied := errors.As(closed, &reply); {
	case err != nil:
		return answered(err, closed)
	case closed != nil && (p.last || !replied):
		return fmt.Errorf("end the transfer: %w", closed)
	}
	// A server from which the rest of the file was not taken complains of it.
	return nil
}

// answered is why a transfer failed, with what the server replied, if it did.
func answered(err, closed error) error {
	if reply := new(textproto.Error); errors.As(closed, &reply) {
		return fmt.Errorf("%w; the server says: %w", err, reply)
	}
	return err
}

// orEnded is why session number i could not begin a transfer: the server's end, where
// it is that. It refuses data connections a moment before its sessions end, or says
// that it closes them (reply 421, RFC 959, 5.4).
func (c *Client) orEnded(i int, err error) error {
	dial, reply := new(net.OpError), new(textproto.Error)
	if errors.As(err, &reply) && reply.Code == library.StatusNotAvailable {
		return fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, err)
	}
	if errors.As(err, &dial) && dial.Op == "dial" {
		if ended := c.sessions[i].NoOp(); ended != nil {
			return fmt.Errorf("%w after %s", ended, err.Error())
		}
	}
	return err
}

// receive reads what belongs to a segment.
func (c *Client) receive(r *library.Response, p *part) error {
	buf := make([]byte, min(chunkBytes, p.Bytes))
	for left := p.Bytes; left > 0; {
		n, err := r.Read(buf[:min(left, int64(len(buf)))])
		if n > 0 {
			p.ended = time.Since(c.started)
			p.series.add(p.ended, n)
			p.CRC32 = crc32.Update(p.CRC32, crc32.IEEETable, buf[:n])
			left -= int64(n)
		}
		if left == 0 {
			break
		}
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return fmt.Errorf("after %d of %d bytes: %w", p.Bytes-left, p.Bytes, err)
		}
	}
	if !p.last {
		return nil
	}
	switch n, err := r.Read(buf[:1]); {
	case n > 0:
		return fmt.Errorf("%w: the file is longer than the server said", ErrMalformed)
	case err != nil && !errors.Is(err, io.EOF):
		return fmt.Errorf("after all %d bytes: %w", p.Bytes, err)
	}
	return nil
}

// Upload stores size bytes of content. What arrived is the server's to say.
func (c *Client) Upload(ctx context.Context, content *Content, size int64) error {
	err := c.sessions[0].Stor(c.o.Path, &source{content: content, size: size})
	// The library joins what failed with the server's reply.
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // no error that wraps others
		list := joined.Unwrap()
		if err = list[0]; len(list) > 1 {
			err = answered(err, errors.Join(list[1:]...))
		}
	}
	if err != nil {
		return c.cause(ctx, fmt.Errorf("store %s: %w", c.o.Path, err))
	}
	return nil
}

// cause prefers the reason why the context ended over what that caused.
func (c *Client) cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &told{err}
}

// told is an error that may quote the server: its text is one line that can be shown,
// whatever the library or what it rests on made of a reply.
type told struct{ err error }

// maxTold bounds that line, in runes.
const maxTold = 1000

func (t *told) Error() string { return printable.Line(t.err.Error(), maxTold) }

func (t *told) Unwrap() error { return t.err }

// abort ends everything at once.
func (c *Client) abort() {
	c.release()
	c.pool.close()
}

// Close takes leave of the server.
func (c *Client) Close() {
	for _, session := range c.sessions {
		_ = session.Quit() // a server that is gone already need not be told
	}
	c.abort()
}
