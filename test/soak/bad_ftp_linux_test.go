package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/textproto"
	"os/exec"
	"strconv"
	"strings"
	"time"

	library "github.com/jlaffaye/ftp"
)

const (
	smallFile = "1MB.bin"
	smallSize = 1_000_000
)

// fetch is a stock FTP client that fetches a file over EPSV, IPv6 or not.
func (c *client) fetch(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if c.from.Is6() {
		name += " over IPv6"
	}
	if c.curl != "" && c.r.IntN(2) == 0 {
		c.fetchByCurl(ctx, name)
		return
	}
	c.note(ctx, name, c.fetchByLibrary(ctx))
}

func (c *client) fetchByCurl(ctx context.Context, name string) {
	url := "ftp://" + netip.AddrPortFrom(c.of(c.from).Addr(), c.ftp).String() + "/" + smallFile
	said, err := c.finish(c.loads, exec.CommandContext(ctx, c.curl, "-sS", "--interface", c.from.String(), "-o", "/dev/null", "-w", "%{size_download}", url))
	if err == nil && strings.TrimSpace(said) != strconv.Itoa(smallSize) {
		c.finding("curl fetches %q bytes of %s", said, smallFile)
	}
	if err != nil && ctx.Err() == nil {
		c.add(name, "curl: "+err.Error())
		return
	}
	c.note(ctx, name, err)
}

func (c *client) fetchByLibrary(ctx context.Context) error {
	address := netip.AddrPortFrom(c.of(c.from).Addr(), c.ftp)
	dial := func(_, to string) (net.Conn, error) {
		target, err := netip.ParseAddrPort(to)
		if err != nil {
			return nil, err
		}
		return c.dialPort(ctx, "tcp", target.Port(), 0)
	}
	session, err := library.Dial(address.String(), library.DialWithDialFunc(dial))
	if err != nil {
		return err
	}
	fetch := func() error {
		if err := session.Login("anonymous", "soak"); err != nil {
			return err
		}
		file, err := session.Retr(smallFile)
		if err != nil {
			return err
		}
		n, err := io.Copy(io.Discard, file)
		if err == nil && n != smallSize {
			c.finding("%d bytes of %s come over FTP", n, smallFile)
		}
		return errors.Join(err, file.Close())
	}
	return errors.Join(fetch(), session.Quit())
}

// ftpSession is an FTP client that says what it likes.
type ftpSession struct {
	*conn
	text *textproto.Conn
}

// ftpLogin connects and logs in.
func (c *client) ftpLogin(ctx context.Context) (*ftpSession, error) {
	to, err := c.dialPort(ctx, "tcp", c.ftp, 0)
	if err != nil {
		return nil, err
	}
	s := &ftpSession{to, textproto.NewConn(to)}
	_, _, err = s.text.ReadResponse(2)
	for _, line := range []string{"USER anonymous", "PASS x"} {
		if err == nil {
			err = s.do(line)
		}
	}
	if err != nil {
		return nil, errors.Join(err, to.Close())
	}
	return s, nil
}

// do sends a command and reads the answer; only that none comes is an error.
func (s *ftpSession) do(line string) error {
	_, err := s.ask(line)
	if _, answered := errors.AsType[*textproto.Error](err); answered {
		return nil
	}
	return err
}

func (s *ftpSession) ask(line string) (answer string, err error) {
	if err := s.text.PrintfLine("%s", line); err != nil {
		return "", err
	}
	_, answer, err = s.text.ReadResponse(2)
	return answer, err
}

// listeners has the server listen for data connections again and again, and
// connects to none.
func (c *client) listeners(ctx context.Context, name string) {
	s, err := c.ftpLogin(ctx)
	if !c.note(ctx, name, err) {
		return
	}
	defer s.Close()
	for i := range 200 {
		if err := s.do([]string{"PASV", "EPSV"}[i%2]); err != nil {
			c.note(ctx, name, err)
			return
		}
	}
	c.stay(ctx)
}

// deafFetch fetches a file without end and reads nothing of it.
func (c *client) deafFetch(ctx context.Context, name string) {
	var held []net.Conn
	defer func() { closeAll(held) }()
	for range 8 {
		s, err := c.ftpLogin(ctx)
		if !c.note(ctx, name, err) {
			break
		}
		held = append(held, s)
		answer, err := s.ask("EPSV")
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(answer, "|||") // "... (|||port|)"
		port, err := strconv.ParseUint(strings.TrimRight(rest, "|)."), 10, 16)
		if err != nil {
			c.finding("the server answers EPSV with %q", answer)
			continue
		}
		data, err := c.dialPort(ctx, "tcp", uint16(port), 2048)
		if err != nil {
			continue
		}
		held = append(held, data)
		_ = s.text.PrintfLine("RETR 10TB.bin") // the answer is of no interest
	}
	c.stay(ctx)
}

// ftpCrowd logs in as often as it can and stays, with a byte now and then.
func (c *client) ftpCrowd(ctx context.Context, name string) {
	held := crowd(ctx, c, name, 400, func(int) (*ftpSession, error) { return c.ftpLogin(ctx) })
	for range 4 {
		for _, s := range held {
			_, _ = s.Write([]byte("N")) // the server may have ended it
		}
		c.stay(ctx)
	}
	closeAll(held)
}

// ftpLies says what no client would, before and after it has logged in.
func (c *client) ftpLies(ctx context.Context, name string) {
	lines := []string{
		"USER " + steering, "PASS " + steering, "RETR " + steering, "REST -1", "REST 99999999999999999999", "SIZE 10TB.bin",
		"EPRT |1|127.0.0.1|22|", "PORT 127,0,0,1,0,22", "STOR x.bin", "RETR ../../etc/passwd", "LIST -R /", "SITE EXEC id", "OPTS " + strings.Repeat("A", 64<<10), steering,
	}
	for _, login := range []bool{false, true} {
		var s *ftpSession
		to, err := c.dialPort(ctx, "tcp", c.ftp, 0)
		if login && err == nil {
			_ = to.Close()
			if s, err = c.ftpLogin(ctx); err == nil {
				to = s.conn
			}
		}
		if !c.note(ctx, fmt.Sprintf("%s, logged in %v", name, login), err) {
			continue
		}
		if to.within(ctx, 2*time.Second) == nil {
			for _, line := range lines {
				_, _ = io.WriteString(to, line+"\r\n") // the server may have hung up
			}
			_, _ = io.Copy(io.Discard, to) // whatever it says
		}
		_ = to.Close()
	}
}
