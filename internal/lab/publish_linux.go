package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
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

// Publish makes the lab known under a name to other processes of this user in the
// namespaces of this process (Published, NodesOf, ExecIn) until it is closed.
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
	w := &wire{conn: conn}
	refuse := func(err error) {
		// A client that does not wait for the reason needs none.
		_ = w.send(message{Op: opReply, Error: err.Error()})
	}
	if err := ownPeer(conn); err != nil {
		refuse(err)
		return
	}
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return
	}
	m, files, err := w.receive()
	if err != nil {
		return
	}
	defer closeAll(files)
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return
	}
	switch {
	case m.Op == opNodes:
		_ = w.send(message{Op: opReply, Nodes: p.lab.Nodes()}) // as above
	case m.Op == opPaths:
		_ = w.send(message{Op: opReply, Switched: p.lab.SwitchedPaths()}) // as above
	case m.Op == opSwitch:
		if err := p.switchTo(m.Path); err != nil {
			refuse(err)
			return
		}
		_ = w.send(message{Op: opReply}) // as above
	case m.Op == opExec && m.Exec != nil && len(m.Exec.Argv) > 0 && len(files) == 3:
		p.exec(w, m, files)
	default:
		refuse(fmt.Errorf("the lab cannot do %q", m.Op))
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

func (p *publication) exec(w *wire, m message, files []*os.File) {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	signals := make(chan os.Signal)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer cancel() // the client hung up
		for {
			s, extra, err := w.receive()
			closeAll(extra)
			if err != nil || s.Op != opSignal {
				return
			}
			select {
			case signals <- syscall.Signal(s.Signal):
			case <-ctx.Done():
				return
			}
		}
	})
	answer, err := p.lab.request(ctx, m, files, signals)
	reply := message{Op: opReply, Exit: answer.Exit}
	if err != nil {
		reply.Error = err.Error()
	}
	_ = w.send(reply) // a client that hung up does not read it
	// End the reader, whose client waits for nothing more.
	cancel()
	_ = w.conn.SetReadDeadline(time.Now())
	reading.Wait()
}

// NodesOf lists the nodes of a published lab.
func NodesOf(ctx context.Context, name string) ([]string, error) {
	w, err := join(name)
	if err != nil {
		return nil, err
	}
	answer, err := w.ask(ctx, message{Op: opNodes}, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("lab %s: %w", name, err)
	}
	return answer.Nodes, nil
}

// ExecIn is Exec in a lab that another process published.
func ExecIn(ctx context.Context, name, node string, c Command) (int, error) {
	m, files, closeNull, err := c.message(node)
	if err != nil {
		return 0, err
	}
	defer closeNull()
	w, err := join(name)
	if err != nil {
		return 0, err
	}
	answer, err := w.ask(ctx, m, files, c.Signals)
	if err != nil {
		return 0, err
	}
	if answer.Exit == nil {
		return 0, fmt.Errorf("run %s in node %s of lab %s: the lab did not say how it ended", c.Argv[0], node, name)
	}
	return answer.Exit.Code, nil
}

// ask sends one request, passes signals on, and returns the answer. It closes
// the connection, which also ends a running command when ctx ends.
func (w *wire) ask(ctx context.Context, m message, files []*os.File, signals <-chan os.Signal) (message, error) {
	type result struct {
		m   message
		err error
	}
	results := make(chan result, 1)
	if err := w.send(m, files...); err != nil {
		return message{}, errors.Join(fmt.Errorf("ask the lab: %w", err), w.conn.Close())
	}
	go func() {
		m, extra, err := w.receive()
		closeAll(extra)
		results <- result{m, err}
	}()
	defer func() { // and wait for the reader
		w.conn.Close()
		<-results
	}()
	for {
		select {
		case r := <-results:
			results <- r // for the deferred wait
			switch {
			case errors.Is(r.err, io.EOF):
				return r.m, errors.New("the lab went down")
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
				if err := w.send(message{Op: opSignal, Signal: int(number)}); err != nil {
					return message{}, fmt.Errorf("pass a signal on: %w", err)
				}
			}
		case <-ctx.Done():
			return message{}, ctx.Err()
		}
	}
}
