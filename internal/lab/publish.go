package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"sync"
	"syscall"
	"time"

	"github.com/hopbench/hopbench/internal/lab/message"
)

// publication answers other processes of the same user in the same namespaces.
type publication struct {
	lab      *Lab
	listener *net.UnixListener
	stop     context.CancelFunc // ends the commands of all clients
	ctx      context.Context
	serving  sync.WaitGroup

	mu      sync.Mutex
	clients map[*net.UnixConn]bool
	closed  bool
}

// publishedName is a name without a slash, and short enough for a socket's path.
var publishedName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// CheckName says why a lab cannot be published under a name.
func CheckName(name string) error {
	if !publishedName.MatchString(name) {
		return fmt.Errorf("%q cannot name a lab: use letters, digits, '.', '_' and '-', at most 64", name)
	}
	return nil
}

// Publish makes the lab known under a name to other processes of this user in the
// namespaces of this process (Running, NodesOf, ExecIn) until it is closed.
func (l *Lab) Publish(name string) error {
	listener, err := listen(name)
	if err != nil {
		return fmt.Errorf("publish lab %s: %w", name, err)
	}
	return l.publish(listener)
}

func (l *Lab) publish(listener *net.UnixListener) error {
	p := &publication{lab: l, listener: listener, clients: make(map[*net.UnixConn]bool)}
	p.ctx, p.stop = context.WithCancel(context.Background())
	l.mu.Lock()
	closing := l.closing
	if !closing {
		l.published = append(l.published, p)
	}
	l.mu.Unlock()
	if closing {
		p.stop()
		return errors.Join(ErrClosed, listener.Close())
	}
	p.serving.Go(p.accept)
	return nil
}

func (p *publication) close() {
	p.stop()
	p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for c := range p.clients {
		c.Close()
	}
	p.mu.Unlock()
	p.serving.Wait()
}

func (p *publication) accept() {
	for {
		conn, err := p.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors: it may pass
			select {
			case <-time.After(100 * time.Millisecond):
				continue
			case <-p.ctx.Done():
				return
			}
		}
		p.mu.Lock()
		admitted := !p.closed
		if admitted {
			p.clients[conn] = true
		}
		p.mu.Unlock()
		if !admitted {
			conn.Close()
			return
		}
		p.serving.Go(func() {
			p.serve(conn)
			p.mu.Lock()
			delete(p.clients, conn)
			p.mu.Unlock()
			conn.Close()
		})
	}
}

// serve answers one client: one request, then signals for it until the client
// hangs up, which kills the command.
func (p *publication) serve(conn *net.UnixConn) {
	w := &message.Conn{UnixConn: conn}
	refuse := func(err error) {
		// A client that does not wait for the reason needs none.
		_ = w.Answer(0, nil, err)
	}
	if err := ownPeer(conn); err != nil {
		refuse(err)
		return
	}
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return
	}
	m, files, err := w.Receive()
	if err != nil {
		return
	}
	defer message.CloseAll(files)
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return
	}
	switch m.Verb {
	case message.Nodes:
		_ = w.Answer(0, p.lab.Nodes(), nil) // as above
	case message.Paths:
		_ = w.Answer(0, p.lab.SwitchedPaths(), nil) // as above
	case message.Switch:
		path, err := message.Body[string](m)
		if err == nil {
			err = p.switchTo(path)
		}
		_ = w.Answer(0, nil, err) // as above
	case message.Exec:
		command, err := message.Body[message.Command](m)
		if err != nil || len(command.Argv) == 0 || len(files) != 3 {
			refuse(errors.New("a command needs a program and three descriptors"))
			return
		}
		p.exec(w, command, files)
	default:
		refuse(fmt.Errorf("the lab cannot do %q", m.Verb))
	}
}

// switchTimeout bounds how long a switch for a client may take: a few routes.
const switchTimeout = 10 * time.Second

// switchTo switches also when the client hangs up meanwhile, so that no path is
// left half switched.
func (p *publication) switchTo(path string) error {
	ctx, cancel := context.WithTimeout(p.ctx, switchTimeout)
	defer cancel()
	return p.lab.Switch(ctx, path)
}

// errWentDown is why a command in a published lab ended with it.
var errWentDown = errors.New("the lab went down")

func (p *publication) exec(w *message.Conn, command message.Command, files []*os.File) {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	signals := make(chan os.Signal)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer cancel() // the client hung up
		for {
			s, extra, err := w.Receive()
			message.CloseAll(extra)
			number, bodyErr := message.Body[int](s)
			if err != nil || s.Verb != message.Signal || bodyErr != nil {
				return
			}
			select {
			case signals <- syscall.Signal(number):
			case <-ctx.Done():
				return
			}
		}
	})
	answer, err := p.lab.request(ctx, message.Exec, command, files, signals)
	if err != nil && p.ctx.Err() != nil {
		err = errWentDown
	}
	_ = w.Answer(0, answer.Body, err) // a client that hung up does not read it
	// End the reader, whose client waits for nothing more.
	cancel()
	_ = w.SetReadDeadline(time.Now())
	reading.Wait()
}

// NodesOf lists the nodes of a published lab.
func NodesOf(ctx context.Context, name string) ([]string, error) {
	nodes, err := askPublished[[]string](ctx, name, message.Nodes, nil, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("lab %s: %w", name, err)
	}
	return nodes, nil
}

// SwitchedPathsOf lists the paths of a published lab that SwitchIn knows.
func SwitchedPathsOf(ctx context.Context, name string) ([]SwitchedPath, error) {
	return askPublished[[]SwitchedPath](ctx, name, message.Paths, nil, nil, nil)
}

// SwitchIn is Switch in a lab that another process published.
func SwitchIn(ctx context.Context, name, path string) error {
	_, err := askPublished[struct{}](ctx, name, message.Switch, path, nil, nil)
	return err
}

// ExecIn is Exec in a lab that another process published.
func ExecIn(ctx context.Context, name, node string, c Command) (int, error) {
	request, files, closeNull, err := c.request(node)
	if err != nil {
		return 0, err
	}
	defer closeNull()
	exit, err := askPublished[message.Exit](ctx, name, message.Exec, request, files, c.Signals)
	return exit.Code, err
}

// askPublished joins a published lab and sends it one request.
func askPublished[Out any](ctx context.Context, name string, verb message.Verb, body any, files []*os.File, signals <-chan os.Signal) (Out, error) {
	var none Out
	w, err := join(name)
	if err != nil {
		return none, err
	}
	answer, err := requestOver(ctx, w, verb, body, files, signals)
	if err != nil {
		return none, err
	}
	return message.Body[Out](answer)
}

// requestOver sends one request, passes signals on, and returns the answer. It closes
// the connection, which also ends a running command when ctx ends.
func requestOver(ctx context.Context, w *message.Conn, verb message.Verb, body any, files []*os.File, signals <-chan os.Signal) (message.Message, error) {
	type result struct {
		m   message.Message
		err error
	}
	results := make(chan result, 1)
	if err := w.Send(verb, 0, body, files...); err != nil {
		return message.Message{}, errors.Join(fmt.Errorf("ask the lab: %w", err), w.Close())
	}
	go func() {
		m, extra, err := w.Receive()
		message.CloseAll(extra)
		results <- result{m, err}
	}()
	defer func() { // and wait for the reader
		w.Close()
		<-results
	}()
	for {
		select {
		case r := <-results:
			results <- r // for the deferred wait
			switch {
			case errors.Is(r.err, io.EOF):
				return r.m, errWentDown
			case r.err != nil:
				return r.m, fmt.Errorf("wait for the lab's answer: %w", r.err)
			case r.m.Error != "":
				return r.m, errors.New(r.m.Error)
			}
			return r.m, nil
		case s, open := <-signals:
			if !open {
				signals = nil
			} else if number, ok := s.(syscall.Signal); ok {
				if err := w.Send(message.Signal, 0, int(number)); err != nil {
					return message.Message{}, fmt.Errorf("pass a signal on: %w", err)
				}
			}
		case <-ctx.Done():
			return message.Message{}, ctx.Err()
		}
	}
}
