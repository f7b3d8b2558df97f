package base

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// stuck is a terminal that was stopped: its writes end when it goes on.
type stuck struct {
	goOn    chan struct{}
	written bytes.Buffer
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.goOn
	return s.written.Write(p)
}

// Nobody waits for a terminal that was stopped, and what it misses is counted.
func TestLinesToAStoppedTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		terminal := &stuck{goOn: make(chan struct{})}
		l := NewLineWriter(terminal)
		for i := range 10 * linesAtOnce {
			fmt.Fprintf(l, "line %d\n", i)
			time.Sleep(time.Second / linesPerSecond) // never too many per second
		}
		close(terminal.goOn)
		synctest.Wait()
		fmt.Fprintln(l, "and on")
		l.Close()
		text := terminal.written.String()
		if lines := strings.Count(text, "\n"); lines > linesAtOnce+4 {
			t.Errorf("%d lines were kept", lines)
		}
		if !strings.HasPrefix(text, "line 0\n") || !strings.HasSuffix(text, "lines were left out)\nand on\n") {
			t.Errorf("it shows %.40q … %.60q", text, text[max(len(text)-60, 0):])
		}
	})
}

// Strangers do not fill a disk.
func TestLinesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := NewLineWriter(&out)
		const seconds = 10
		for range seconds {
			for range 1000 {
				fmt.Fprintln(l, "refused")
				synctest.Wait() // the writer keeps up
			}
			time.Sleep(time.Second)
		}
		l.Close()
		if lines := strings.Count(out.String(), "refused"); lines > linesAtOnce+seconds*linesPerSecond || lines < linesAtOnce {
			t.Errorf("%d of %d lines were written", lines, seconds*1000)
		}
	})
}

// Of what is announced once, nothing is left out.
func TestManyAnnouncementsAtOnce(t *testing.T) {
	var out bytes.Buffer
	l := NewAnnouncer(&out)
	const series = 3 * linesAtOnce
	for range series {
		fmt.Fprintln(l, "CHANGED")
	}
	l.Close()
	if lines := strings.Count(out.String(), "CHANGED"); lines != series {
		t.Errorf("%d of %d lines were written", lines, series)
	}
}

// A server ends although nobody reads its lines.
func TestEndWithAStoppedTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		terminal := &stuck{goOn: make(chan struct{})}
		l := NewLineWriter(terminal)
		fmt.Fprintln(l, "line")
		began := time.Now()
		l.Close()
		if took := time.Since(began); took != flushTime {
			t.Errorf("the end waits %v, want %v", took, flushTime)
		}
		fmt.Fprintln(l, "too late") // by whom may still be ending
		close(terminal.goOn)
		synctest.Wait()
	})
}
