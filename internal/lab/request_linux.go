package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// request sends m and waits for its answer. While it waits it passes signals
// on to the command that m started; when ctx ends it has the command killed and
// still waits for the answer, so that nothing runs on unseen.
func (l *Lab) request(ctx context.Context, m message, files []*os.File, signals <-chan os.Signal) (message, error) {
	if err := ctx.Err(); err != nil {
		return message{}, err
	}
	answer := make(chan message, 1)
	l.mu.Lock()
	l.last++
	m.ID = l.last
	l.pending[m.ID] = answer
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.pending, m.ID)
		l.mu.Unlock()
	}()
	if err := l.wire.send(m, files...); err != nil {
		return message{}, l.gone(err)
	}
	cancelled := ctx.Done()
	for {
		select {
		case a := <-answer:
			if err := ctx.Err(); err != nil && cancelled == nil {
				return a, err
			}
			if a.Error != "" {
				return a, errors.New(a.Error)
			}
			return a, nil
		case <-l.readDone:
			return message{}, l.gone(errors.New("no answer"))
		case s, open := <-signals:
			if !open {
				signals = nil
			} else if number, ok := s.(syscall.Signal); ok {
				if err := l.wire.send(message{Op: opSignal, ID: m.ID, Signal: int(number)}); err != nil {
					return message{}, l.gone(err)
				}
			}
		case <-cancelled:
			cancelled = nil
			if m.Op != opExec {
				return message{}, ctx.Err()
			}
			if err := l.wire.send(message{Op: opSignal, ID: m.ID, Signal: int(unix.SIGKILL)}); err != nil {
				return message{}, l.gone(err)
			}
		}
	}
}

// gone explains a failed exchange by the end of the lab, if that is the reason.
func (l *Lab) gone(err error) error {
	select {
	case <-l.readDone:
		<-l.exited // then Err knows
	default:
	}
	if why := l.Err(); why != nil {
		return why
	}
	return fmt.Errorf("talk to the lab's supervisor: %w", err)
}

// Exec runs a program in a node and returns its exit status; 128 plus the
// number of the signal when one killed it, as shells do. When ctx ends, the
// program and its process group are killed. The program runs in a session of
// its own, as root of the lab's user namespace.
func (l *Lab) Exec(ctx context.Context, node string, c Command) (int, error) {
	m, files, closeNull, err := c.message(node)
	if err != nil {
		return 0, err
	}
	defer closeNull()
	return l.exec(ctx, m, files, c.Signals)
}

func (l *Lab) exec(ctx context.Context, m message, files []*os.File, signals <-chan os.Signal) (int, error) {
	answer, err := l.request(ctx, m, files, signals)
	if err != nil {
		return 0, fmt.Errorf("run %s in node %s: %w", m.Exec.Argv[0], m.Node, err)
	}
	if answer.Exit == nil {
		return 0, fmt.Errorf("run %s in node %s: the supervisor did not say how it ended", m.Exec.Argv[0], m.Node)
	}
	return answer.Exit.Code, nil
}

// message is the request to run c, with its three descriptors.
func (c Command) message(node string) (message, []*os.File, func(), error) {
	nothing := func() {}
	if len(c.Argv) == 0 {
		return message{}, nil, nothing, errors.New("run a command in a node: no program named")
	}
	request := execRequest{Argv: c.Argv, Env: c.Env, Dir: c.Dir}
	if request.Env == nil {
		request.Env = os.Environ()
	}
	if request.Dir == "" {
		dir, err := os.Getwd()
		if err != nil {
			return message{}, nil, nothing, fmt.Errorf("run %s in node %s: %w", c.Argv[0], node, err)
		}
		request.Dir = dir
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return message{}, nil, nothing, fmt.Errorf("run %s in node %s: %w", c.Argv[0], node, err)
	}
	files := []*os.File{c.Stdin, c.Stdout, c.Stderr}
	for i := range files {
		if files[i] == nil {
			files[i] = null
		}
	}
	return message{Op: opExec, Node: node, Exec: &request}, files, func() { null.Close() }, nil
}
