package iperf3

import (
	"fmt"
	"os"
	"time"
)

const (
	// lostTimeouts is how many unanswered timeouts in a row are no chance once the test is over,
	// and lostWait how long for more is waited where there are nearly so many.
	lostTimeouts = 4
	lostWait     = 5 * time.Second
	// leastSilence is for how long nothing came of a stream that the path lost.
	leastSilence = 3 * time.Second
)

// lostStream is an error where the path lost a stream over TCP, while the test's own connection
// stayed whole: the other end waits for nothing more of it, and tells a result.
func (t *client) lostStream() error {
	for i, s := range t.streams {
		silent := t.until - max(time.Duration(s.last.Load()), t.omit)
		if !t.udp && (s.sender && s.unacknowledged() || !s.sender && silent >= leastSilence && 2*silent >= t.until-t.omit) {
			return fmt.Errorf("stream %d of %d: %w", i+1, len(t.streams), errLost)
		}
	}
	return nil
}

// errLost and errUnheard are to errors.Is the timeout that they are, of which a user only reads
// "i/o timeout".
const (
	errLost    = silence("the other end stopped answering on it")
	errUnheard = silence("the server did not hear of it in time")
)

type silence string

func (s silence) Error() string { return string(s) }

func (silence) Is(target error) bool { return target == os.ErrDeadlineExceeded } //nolint:errorlint // as errors.Is does

// unacknowledged says that nothing of what a stream sent was acknowledged lately, nor is now.
func (s *stream) unacknowledged() bool {
	if s.conn.LostInARow() < lostTimeouts-1 {
		return false
	}
	before, _, _ := s.conn.Acknowledged()
	for end := time.Now().Add(lostWait); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if now, _, ok := s.conn.Acknowledged(); !ok || now > before {
			return false
		}
	}
	return s.conn.LostInARow() >= lostTimeouts
}
