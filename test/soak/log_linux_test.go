package soak

import (
	"bufio"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

// serverLog reads what the server says on its standard error.
type serverLog struct {
	reading sync.Mutex // held by who wants nobody to read
	ended   chan struct{}

	mu      sync.Mutex
	bytes   int
	lines   int
	longest int
	unsafe  string   // the first line that could steer a terminal
	tail    []string // lines, or, once it is dying, what it said first of that
	dying   bool
}

const (
	tailLines = 40
	// maxLine is far above a line that says what, who and why.
	maxLine = 4 << 10
	// A log may grow with what ordinary clients do, and not as fast as strangers
	// connect.
	logPerSecond, logSlack = 32 << 10, 1 << 20
)

// follow reads until the server has ended.
func (l *serverLog) follow(lines *bufio.Reader) {
	defer close(l.ended)
	for {
		line, err := lines.ReadString('\n')
		l.reading.Lock()
		l.add(line)
		l.reading.Unlock()
		if err != nil {
			return // it has ended
		}
	}
}

func (l *serverLog) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes += len(line)
	l.lines++
	l.longest = max(l.longest, len(line))
	text := strings.TrimSuffix(line, "\n")
	unsafe := func(r rune) bool { return !unicode.IsPrint(r) }
	if l.unsafe == "" && (!utf8.ValidString(text) || strings.IndexFunc(text, unsafe) >= 0) {
		l.unsafe = text[:min(len(text), maxLine)]
	}
	if !l.dying && (strings.HasPrefix(text, "panic: ") || strings.HasPrefix(text, "fatal error: ") || strings.HasPrefix(text, "runtime: ")) {
		l.dying, l.tail = true, nil
	}
	if l.dying && len(l.tail) == tailLines {
		return
	}
	l.tail = append(l.tail[max(len(l.tail)-tailLines+1, 0):], text[:min(len(text), maxLine)])
}

// last is how the log ends.
func (l *serverLog) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out strings.Builder
	for _, line := range l.tail {
		fmt.Fprintf(&out, "  %q\n", line)
	}
	return out.String()
}

// judge compares the log with what a stranger must not do to it.
func (l *serverLog) judge(t *testing.T, length time.Duration) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	bound := logSlack + logPerSecond*int(length.Seconds())
	t.Logf("the server's log: %d lines, %.2f MB (bound %.0f MB), the longest of %d bytes", l.lines, float64(l.bytes)/1e6, float64(bound)/1e6, l.longest)
	if l.unsafe != "" {
		t.Errorf("text of a client can steer the operator's terminal: %q", l.unsafe)
	}
	if l.longest > maxLine {
		t.Errorf("a line of the server's log has %d bytes", l.longest)
	}
	if l.bytes > bound {
		t.Errorf("the server's log has %d bytes after %v; its clients decide how long it gets", l.bytes, length)
	}
}
