package base

import (
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// A server that anyone may reach writes so many lines per second at most, after a
	// burst: what strangers make it say must not fill a disk.
	linesPerSecond = 20
	linesAtOnce    = 200
	// announcedAtOnce is more than all series of a watch, which may change in one round.
	announcedAtOnce = 10_000
	// flushTime is how long the end of a server waits for a reader of its lines that
	// has stopped.
	flushTime = time.Second
)

// LineWriter writes lines to w from a goroutine of its own, so that nobody waits for a
// terminal that was stopped (Ctrl-S) or a pipe that is full. Lines beyond the bounds
// are counted and left out.
type LineWriter struct {
	w      io.Writer
	lines  chan []byte
	done   chan struct{}
	atOnce float64

	mu     sync.Mutex
	closed bool
	left   float64 // lines that may be written at once
	at     time.Time
	missed int
}

// NewLineWriter has lines written to w until it is closed.
func NewLineWriter(w io.Writer) *LineWriter { return newLineWriter(w, linesAtOnce) }

// NewAnnouncer is NewLineWriter for what no stranger causes: many lines at once are written.
func NewAnnouncer(w io.Writer) *LineWriter { return newLineWriter(w, announcedAtOnce) }

func newLineWriter(w io.Writer, atOnce int) *LineWriter {
	l := &LineWriter{w: w, lines: make(chan []byte, atOnce), done: make(chan struct{}), atOnce: float64(atOnce), left: float64(atOnce), at: time.Now()}
	go func() {
		defer close(l.done)
		for line := range l.lines {
			_, _ = l.w.Write(line) // there is nobody to tell
		}
	}()
	return l
}

// Write takes one line, or several, and never waits. It always takes all.
func (l *LineWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.left = min(l.left+now.Sub(l.at).Seconds()*linesPerSecond, l.atOnce)
	l.at = now
	if l.closed || l.left < 1 {
		l.missed++
		return len(p), nil
	}
	line := append([]byte(nil), p...)
	if l.missed > 0 {
		line = fmt.Appendf(nil, "(%d lines were left out)\n%s", l.missed, p)
	}
	select {
	case l.lines <- line:
		l.left--
		l.missed = 0
	default:
		l.missed++
	}
	return len(p), nil
}

// Close writes what is left, for flushTime at most.
func (l *LineWriter) Close() {
	l.mu.Lock()
	l.closed = true
	close(l.lines)
	l.mu.Unlock()
	select {
	case <-l.done:
	case <-time.After(flushTime):
	}
}
