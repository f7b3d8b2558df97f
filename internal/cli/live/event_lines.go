package live

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/quantity"
)

// Lines writes events for programs, a JSON document a line; who writes them does not wait
// for who reads them.
type Lines struct {
	lines chan any
	ended chan error
	lost  int
}

// mostLines is how many events may wait for who reads them, and mostPending how many bytes of
// theirs for room on a disk.
const (
	mostLines   = 1024
	mostPending = 1_000_000
)

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
		if err == nil {
			err = endLine(f)
		}
		if err != nil {
			return nil, fmt.Errorf("--events: %w", err)
		}
		to, end = f, f.Close
	}
	return writeLines(to, end, s.Err), nil
}

// writeLines writes to a file that may be full for a while: what does not fit is written before
// the next event. Told hears once of each such time.
func writeLines(to io.Writer, end func() error, told io.Writer) *Lines {
	l := &Lines{lines: make(chan any, mostLines), ended: make(chan error, 1)}
	go func() {
		var pending []byte
		var failed error
		unwritten := 0 // events
		for e := range l.lines {
			text, err := json.Marshal(e)
			if err != nil {
				continue
			}
			if len(pending)+len(text) < mostPending {
				pending = append(append(pending, text...), '\n')
			} else {
				unwritten++
			}
			n, err := to.Write(pending)
			if pending = pending[n:]; err != nil && failed == nil {
				fmt.Fprintf(told, "warning: write the events: %v; they wait in memory, %s of them at most\n", err, quantity.FormatBytes(mostPending))
			}
			failed = err
		}
		if failed != nil {
			_, failed = to.Write(pending)
		}
		if unwritten > 0 {
			failed = errors.Join(failed, fmt.Errorf("%s found no room", quantity.Count(unwritten, "event")))
		}
		l.ended <- errors.Join(failed, end())
	}()
	return l
}

// endLine ends the half line that a program which was killed may have left in a file.
func endLine(f *os.File) error {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return err
	}
	last := []byte("\n")
	if _, err = f.ReadAt(last, info.Size()-1); err == nil && last[0] != '\n' {
		_, err = f.WriteString("\n")
	}
	return err
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
