package live

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
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

// writeLines has events written to a file, and then end called. Warnings go to told.
func writeLines(to io.Writer, end func() error, told io.Writer) *Lines {
	l := &Lines{lines: make(chan any, mostLines), ended: make(chan error, 1)}
	go func() {
		file := patientFile{to: to, warn: func(text string) { fmt.Fprintln(told, "warning: "+text) }}
		encoder := json.NewEncoder(&file)
		for e := range l.lines {
			_ = encoder.Encode(e)
		}
		l.ended <- errors.Join(file.end(), end())
	}()
	return l
}

// patientFile writes lines, one a call, to a file that may be full for a while: what does not fit
// is written before the next line. Warn hears once of each such time.
type patientFile struct {
	to        io.Writer
	warn      func(string)
	pending   []byte
	failed    error // the last write
	unwritten int   // lines
}

// Write never fails: end tells what could not be written.
func (f *patientFile) Write(line []byte) (int, error) {
	if len(f.pending)+len(line) <= mostPending {
		f.pending = append(f.pending, line...)
	} else {
		f.unwritten++
	}
	before := f.failed
	if f.flush(); f.failed != nil && before == nil {
		then := fmt.Sprintf("they wait in memory, %s of them at most", quantity.FormatBytes(mostPending))
		if errors.Is(f.failed, syscall.EPIPE) {
			then = "nobody reads them any more"
		}
		f.warn(fmt.Sprintf("write the events: %v; %s", f.failed, then))
	}
	return len(line), nil
}

func (f *patientFile) flush() {
	var n int
	n, f.failed = f.to.Write(f.pending)
	f.pending = f.pending[n:]
}

// end writes what waits once more.
func (f *patientFile) end() error {
	if f.failed != nil {
		f.flush()
	}
	if f.unwritten > 0 {
		return errors.Join(f.failed, fmt.Errorf("%s found no room", quantity.Count(f.unwritten, "event")))
	}
	return f.failed
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
