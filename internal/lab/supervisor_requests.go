package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/hopbench/hopbench/internal/lab/message"
)

// call asks the supervisor for something and returns the body of its answer.
func call[Out any](ctx context.Context, l *Lab, verb message.Verb, body any) (Out, error) {
	answer, err := l.request(ctx, verb, body, nil, nil)
	if err != nil {
		var none Out
		return none, err
	}
	return message.Body[Out](answer)
}

// request sends a request and waits for its answer. While it waits it passes
// signals on to the command that it started; when ctx ends it has the command
// killed and still waits for the answer, so that nothing runs on unseen.
func (l *Lab) request(ctx context.Context, verb message.Verb, body any, files []*os.File, signals <-chan os.Signal) (message.Message, error) {
	if err := ctx.Err(); err != nil {
		return message.Message{}, err
	}
	answer := make(chan message.Message, 1)
	l.mu.Lock()
	l.last++
	id := l.last
	l.pending[id] = answer
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.pending, id)
		l.mu.Unlock()
	}()
	if err := l.conn.Send(verb, id, body, files...); err != nil {
		return message.Message{}, l.gone(err)
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
			return message.Message{}, l.gone(errors.New("no answer"))
		case s, open := <-signals:
			if !open {
				signals = nil
			} else if number, ok := s.(syscall.Signal); ok {
				if err := l.conn.Send(message.Signal, id, int(number)); err != nil {
					return message.Message{}, l.gone(err)
				}
			}
		case <-cancelled:
			cancelled = nil
			if verb != message.Exec {
				return message.Message{}, ctx.Err()
			}
			if err := l.conn.Send(message.Signal, id, int(syscall.SIGKILL)); err != nil {
				return message.Message{}, l.gone(err)
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
	request, files, closeNull, err := c.request(node)
	if err != nil {
		return 0, err
	}
	defer closeNull()
	answer, err := l.request(ctx, message.Exec, request, files, c.Signals)
	if err != nil {
		return 0, fmt.Errorf("run %s in node %s: %w", c.Argv[0], node, err)
	}
	exit, err := message.Body[message.Exit](answer)
	return exit.Code, err
}

// request is what runs c, with its three descriptors.
func (c Command) request(node string) (r message.Command, files []*os.File, closeNull func(), err error) {
	closeNull = func() {}
	if len(c.Argv) == 0 {
		return r, nil, closeNull, errors.New("run a command in a node: no program named")
	}
	r = message.Command{Node: node, Argv: c.Argv, Env: c.Env, Dir: c.Dir}
	if r.Env == nil {
		r.Env = os.Environ()
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err == nil {
		closeNull = func() { null.Close() }
		if r.Dir == "" {
			r.Dir, err = os.Getwd()
		}
	}
	if err != nil {
		closeNull()
		return r, nil, func() {}, fmt.Errorf("run %s in node %s: %w", c.Argv[0], node, err)
	}
	files = []*os.File{c.Stdin, c.Stdout, c.Stderr}
	for i := range files {
		if files[i] == nil {
			files[i] = null
		}
	}
	return r, files, closeNull, nil
}
