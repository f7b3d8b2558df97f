package live

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/hopbench/hopbench/internal/cli/base"
)

// Lines writes events for programs, a JSON document a line; who writes them does not wait
// for who reads them.
type Lines struct {
	lines chan any
	ended chan error
	lost  int
}

// mostLines is how many events may wait for who reads them.
const mostLines = 1024

// OpenLines prepares the lines of a file, none without one; what is printed goes nowhere
// if standard output is for them.
func OpenLines(file string, s *base.Streams) (*Lines, error) {
	if file == "" {
		return &Lines{}, nil
	}
	to, end := s.Out, func() error { return nil }
	if file == onStandardOutput {
		s.Out = io.Discard
	} else {
		if err := NotOfRun(file, ""); err != nil {
			return nil, fmt.Errorf("--events: %w", err)
		}
		// For both: to open a pipe for writing alone waits for who reads it.
		f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
		if err != nil {
			return nil, fmt.Errorf("--events: %w", err)
		}
		to, end = f, f.Close
	}
	l := &Lines{lines: make(chan any, mostLines), ended: make(chan error, 1)}
	go func() {
		var err error
		for e := range l.lines {
			if text, bad := json.Marshal(e); bad == nil && err == nil {
				_, err = to.Write(append(text, '\n'))
			}
		}
		l.ended <- errors.Join(err, end())
	}()
	return l, nil
}

// Write has an event written.
func (l *Lines) Write(e any) {
	if l.lines == nil {
		return
	}
	select {
	case l.lines <- e:
	default:
		l.lost++
	}
}

// Close waits until all is written.
func (l *Lines) Close() error {
	if l.lines == nil {
		return nil
	}
	close(l.lines)
	var err error
	select {
	case err = <-l.ended:
	case <-time.After(drainTime):
		err = errors.New("nobody read all of them")
	}
	if l.lost > 0 {
		err = errors.Join(err, fmt.Errorf("%d were lost", l.lost))
	}
	if err != nil {
		return fmt.Errorf("write the events: %w", err)
	}
	return nil
}
