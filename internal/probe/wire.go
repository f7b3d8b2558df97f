package probe

import (
	"errors"
	"os"
	"time"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/sockets"
)

// wire reads and writes control frames on a detached connection: it hides the
// ticks, up to a deadline. It belongs to the goroutine that transfers.
type wire struct {
	*sockets.Conn
	deadline time.Time
	// guard, nil at a client, ends the connection should a loop forget the deadline, and
	// may order it to end.
	guard *guard
	// untilStart is how long START may take to come.
	untilStart time.Duration
	// began, unless nil, is called when START has come: a connection that
	// waits for it has no thread of its own yet.
	began func() error
}

func (w *wire) late() bool { return time.Now().After(w.deadline) }

// until moves the deadline.
func (w *wire) until(t time.Time) {
	w.deadline = t
	if w.guard != nil {
		w.guard.until(t)
	}
}

// served says that this is a server's end.
func (w *wire) served() bool { return w.guard != nil }

// over is why nothing more is to be waited for, if nothing is.
func (w *wire) over() error {
	if err := w.guard.halted(); err != nil {
		return err
	}
	if w.late() {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// Read blocks for at least one byte, until the deadline.
func (w *wire) Read(p []byte) (int, error) {
	for {
		n, err := w.Conn.Read(p)
		if !errors.Is(err, sockets.ErrTick) {
			return n, err
		}
		if err := w.over(); err != nil {
			return 0, err
		}
	}
}

// Write writes all of p, until the deadline.
func (w *wire) Write(p []byte) (int, error) { return w.writeAll(p, w.Conn.Write) }

func (w *wire) writeAll(p []byte, write func([]byte) (int, error)) (int, error) {
	done := 0
	for done < len(p) {
		n, err := write(p[done:])
		done += n
		if err == nil {
			continue
		}
		if !errors.Is(err, sockets.ErrTick) {
			return done, err
		}
		if err := w.over(); err != nil {
			return done, err
		}
	}
	return done, nil
}

// aside runs f on a goroutine of its own and waits for it: what needs a deep
// stack for a moment, as JSON does, should not leave thousands of goroutines
// that wait with one each. The collector halves a stack of 8 KB only when less
// than a quarter is in use, so a flow must wait with frames of less than 2 KB:
// a function below which it waits copies no Spec.
func aside(f func() error) error {
	done := make(chan error, 1)
	go func() { done <- admission.Contain(f) }()
	return <-done
}
