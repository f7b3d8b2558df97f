package session

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

// ControlConn reads and writes control frames on a detached connection: it hides the
// ticks, up to a deadline. It belongs to the goroutine that transfers.
type ControlConn struct {
	*sockets.Conn
	Deadline time.Time
	// Guard, nil at a client, ends the connection should a loop forget the deadline, and
	// may order it to end.
	Guard *Guard
	// Deflate says, at a server, that the client reads deflated frames.
	Deflate bool
	// UntilStart is how long START may take to come.
	UntilStart time.Duration
	// Began, unless nil, is called when START has come: a connection that
	// waits for it has no thread of its own yet.
	Began func() error
}

// Deflates says whether long frames may be deflated.
func (w *ControlConn) Deflates() bool { return w.Deflate }

// Late says that the deadline has passed.
func (w *ControlConn) Late() bool { return time.Now().After(w.Deadline) }

// Until moves the deadline.
func (w *ControlConn) Until(t time.Time) {
	w.Deadline = t
	if w.Guard != nil {
		w.Guard.Until(t)
	}
}

// Served says that this is a server's end.
func (w *ControlConn) Served() bool { return w.Guard != nil }

// Over is why nothing more is to be waited for, if nothing is.
func (w *ControlConn) Over() error {
	if err := w.Guard.Halted(); err != nil {
		return err
	}
	if w.Late() {
		return ErrSilent
	}
	return nil
}

// Read blocks for at least one byte, until the deadline.
func (w *ControlConn) Read(p []byte) (int, error) {
	for {
		n, err := w.Conn.Read(p)
		if !errors.Is(err, sockets.ErrTick) {
			return n, err
		}
		if err := w.Over(); err != nil {
			return 0, err
		}
	}
}

// Write writes all of p, until the deadline.
func (w *ControlConn) Write(p []byte) (int, error) { return w.WriteAll(p, w.Conn.Write) }

// WriteAll writes all of p by a method of the connection, until the deadline.
func (w *ControlConn) WriteAll(p []byte, write func([]byte) (int, error)) (int, error) {
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
		if err := w.Over(); err != nil {
			return done, err
		}
	}
	return done, nil
}

// EndTest says, at a client, that the test is over, and reads the server's report.
func (w *ControlConn) EndTest(report *protocol.Report) error {
	if err := protocol.WriteFrame(w, protocol.TypeReceived, nil); err != nil {
		return Wrap("end the test", err)
	}
	return w.ReadReport(report)
}

// ReadReport reads the report of a server that knows that the test is over.
func (w *ControlConn) ReadReport(report *protocol.Report) error {
	return Wrap("read the server's report", protocol.Expect(w, protocol.TypeReport, protocol.MaxControl, report))
}

// OnFreshStack runs f on a goroutine of its own and waits for it: what needs a deep
// stack for a moment, as JSON does, should not leave thousands of goroutines
// that wait with one each. The collector halves a stack of 8 KB only when less
// than a quarter is in use, so a flow must wait with frames of less than 2 KB:
// a function below which it waits copies no Spec.
func OnFreshStack(f func() error) error {
	done := make(chan error, 1)
	go func() { done <- admission.Contain(f) }()
	return <-done
}

// OnFreshStack is [OnFreshStack] where the flow may be one of thousands. One that has a thread
// of its own runs f on that: to change goroutines it would have to wait, twice, for a thread
// that the other flows leave a CPU.
func (w *ControlConn) OnFreshStack(f func() error) error {
	if w.Attached() {
		return OnFreshStack(f)
	}
	return admission.Contain(f)
}

// AwaitClose waits until the other end closes: closing first could reset the
// connection under the last bytes.
func AwaitClose(w *ControlConn) error {
	if err := w.CloseWrite(); err != nil {
		return err
	}
	// Nothing more is due; whoever sends all the same is not waited for.
	var b [64]byte
	if n, err := w.Read(b[:]); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		return cmp.Or(err, fmt.Errorf("%w: %d bytes after the end of the test", protocol.ErrMalformed, n))
	}
	return nil
}
