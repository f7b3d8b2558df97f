package base

import (
	"errors"
	"io"
	"sync"
	"syscall"
)

// Output is standard output, which knows whether all was written. Commands that print a line at
// a time need not ask.
type Output struct {
	to  io.Writer
	mu  sync.Mutex
	err error // the first
}

// NewOutput has what is written go to a writer.
func NewOutput(to io.Writer) *Output { return &Output{to: to} }

func (o *Output) Write(p []byte) (int, error) {
	n, err := o.to.Write(p)
	// A reader that has gone, such as head(1), has what it wanted.
	if err != nil && !errors.Is(err, syscall.EPIPE) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err == nil {
			o.err = err
		}
	}
	return n, err
}

// Under is what it writes to.
func (o *Output) Under() io.Writer { return o.to }

// Failed is the error of a command, or, if it has none, why its output is not complete.
func (o *Output) Failed(err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		return o.err
	}
	return err
}
