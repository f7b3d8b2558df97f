// Package resume makes a stream of bytes that outlives the connections that carry it: what
// one end wrote and the other has not read is sent again over the next connection, so that
// nothing is lost and nothing comes twice.
package resume

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Over a connection go records:
//
//	byte 0        kind
//	bytes 1–8     how many bytes of the stream this end has read; big-endian
//	bytes 9–12    length of the data; big-endian
//	the rest      data
const headerBytes = 13

const (
	kindData byte = 0 // bytes of the stream; without any it says only what was read
	kindEnd  byte = 1 // the stream is over; the data says why, empty for a good end
)

const (
	// recordBytes bounds a record.
	recordBytes = 512 << 10
	maxData     = recordBytes - headerBytes
	// maxReason bounds what is said of why a stream is over, in bytes.
	maxReason = 500
	// maxUnread bounds, in bytes, what was written and the other end has not read: the largest
	// reply of an agent (protocol.MaxAgentReply) and what it says meanwhile.
	maxUnread = 18 << 20
	// sayEvery is after how many bytes it is said that they were read, where nothing else is
	// said meanwhile.
	sayEvery = 256 << 10
	// keepBytes is how large a buffer is kept that is empty.
	keepBytes = 16 << 10
)

var (
	errMalformed = errors.New("no record of a stream")
	// errFull says that the other end reads nothing.
	errFull = fmt.Errorf("the other end reads nothing: %d bytes wait for it", maxUnread)
)

// Options of a stream.
type Options struct {
	// Away is how long a stream goes on without a connection.
	Away time.Duration
	// Final says whether a connection ended for a reason that ends the stream, too; nil for
	// never.
	Final func(error) bool
	// OnOver is called once, when the stream is over. May be nil.
	OnOver func()
}

// Stream is one end of a stream. Attach gives it a connection; until then, and while it has
// none, reads wait, and what is written is kept.
type Stream struct {
	o    Options
	over chan struct{} // closed once it is

	reading sync.Mutex

	mu       sync.Mutex
	carrier  *carrier      // nil while there is none
	changed  chan struct{} // closed at the next change of carrier
	away     *time.Timer   // ends the stream while there is no carrier
	held     []byte        // written, and not known to be read
	released uint64        // bytes before held
	read     uint64        // bytes that were read here
	said     uint64        // of which the other end knows
	failed   error         // why it is over, nil while it is not
	closing  []*carrier    // that have no part in it any more; see unlock
}

// carrier is a connection that carries a stream.
type carrier struct {
	conn   io.ReadWriteCloser
	broken chan error // gets why it has ended
	left   int        // of the record that is being read; of the reader
}

// New makes an end of a stream, which begins.
func New(o Options) *Stream {
	s := &Stream{o: o, over: make(chan struct{}), changed: make(chan struct{})}
	s.mu.Lock() // for the timer
	defer s.mu.Unlock()
	s.away = time.AfterFunc(o.Away, func() { s.finish(fmt.Errorf("no connection came in %v", o.Away), nil) })
	return s
}

// Over is closed once the stream is over; Err says why from then on.
func (s *Stream) Over() <-chan struct{} { return s.over }

// Err is why the stream is over, nil while it is not.
func (s *Stream) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// Detach takes the connection away, if there is one, and says how many bytes were read
// altogether: the other end is to send what comes after them.
func (s *Stream) Detach(why error) (read uint64) {
	s.mu.Lock()
	defer s.unlock()
	s.lose(s.carrier, why)
	s.said = s.read
	return s.read
}

// Attach has a connection carry the stream, in place of the one before. It belongs to the
// stream from then on. Theirs is what Detach said at the other end. Broken gets why the
// connection, or the stream, has ended.
func (s *Stream) Attach(conn io.ReadWriteCloser, theirs uint64) (broken <-chan error, err error) {
	s.mu.Lock()
	s.lose(s.carrier, errors.New("another connection came"))
	if err = s.failed; err == nil {
		err = s.release(theirs)
	}
	if err != nil {
		s.unlock()
		s.finish(err, nil)
		return nil, errors.Join(err, conn.Close())
	}
	c := &carrier{conn: conn, broken: make(chan error, 1)}
	s.carrier = c
	s.away.Stop()
	close(s.changed)
	s.changed = make(chan struct{})
	if len(s.held) > 0 {
		s.send(s.held)
	}
	s.unlock()
	return c.broken, nil
}

// release drops what the other end has read. The caller holds the lock.
func (s *Stream) release(theirs uint64) error {
	if theirs < s.released || theirs-s.released > uint64(len(s.held)) {
		return fmt.Errorf("%w: %d bytes are said to have been read, where %d to %d can be", errMalformed, theirs, s.released, s.released+uint64(len(s.held)))
	}
	s.held = s.held[theirs-s.released:]
	s.released = theirs
	if len(s.held) == 0 && cap(s.held) > keepBytes {
		s.held = nil
	}
	return nil
}

// lose takes a carrier away that has ended, or is to. The caller holds the lock.
func (s *Stream) lose(c *carrier, why error) {
	if c == nil || s.carrier != c {
		return
	}
	s.carrier = nil
	c.broken <- why
	s.closing = append(s.closing, c)
	close(s.changed)
	s.changed = make(chan struct{})
	if s.failed == nil {
		s.away.Stop()
		s.away = time.AfterFunc(s.o.Away, func() { s.abandon(why) })
	}
}

// unlock closes what carries the stream no more, for which it does not hold the lock: to close
// a connection may take a while, and no test is to wait for it.
func (s *Stream) unlock() {
	closing := s.closing
	s.closing = nil
	s.mu.Unlock()
	for _, c := range closing {
		_ = c.conn.Close() // it has ended, or is not needed any more
	}
}

// abandon ends a stream that has no connection.
func (s *Stream) abandon(why error) {
	s.mu.Lock()
	back := s.carrier != nil
	s.mu.Unlock()
	if !back {
		s.finish(fmt.Errorf("%w, and it did not come back in %v", why, s.o.Away), nil)
	}
}

// Read waits for what the other end writes. io.EOF is its good end.
func (s *Stream) Read(b []byte) (int, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	for {
		c, err := s.current()
		if err != nil {
			return 0, err
		}
		n, err := s.receive(c, b)
		var over *end
		switch {
		case errors.As(err, &over):
			s.finish(over.why, nil)
		case err != nil && (errors.Is(err, errMalformed) || s.o.Final != nil && s.o.Final(err)):
			s.finish(err, []byte(err.Error()))
		case err != nil:
			s.mu.Lock()
			s.lose(c, err)
			s.unlock()
		}
		if n > 0 || len(b) == 0 {
			return n, nil
		}
	}
}

// end is the other end's last word.
type end struct{ why error }

func (e *end) Error() string { return e.why.Error() }

// current waits for a carrier.
func (s *Stream) current() (*carrier, error) {
	for {
		s.mu.Lock()
		c, changed, err := s.carrier, s.changed, s.failed
		s.mu.Unlock()
		if c != nil || err != nil {
			return c, err
		}
		select {
		case <-changed:
		case <-s.over:
		}
	}
}

// receive reads from a carrier what there is, and may return nothing without an error.
func (s *Stream) receive(c *carrier, b []byte) (int, error) {
	if c.left == 0 {
		if err := s.open(c); err != nil || c.left == 0 {
			return 0, err
		}
	}
	n, err := c.conn.Read(b[:min(len(b), c.left)])
	c.left -= n
	s.mu.Lock()
	defer s.unlock()
	if s.carrier != c {
		return 0, nil // it comes again over the next one
	}
	s.read += uint64(n)
	if s.read-s.said >= sayEvery {
		s.send(nil)
	}
	return n, err
}

// open reads the header of a record.
func (s *Stream) open(c *carrier) error {
	var h [headerBytes]byte
	if _, err := io.ReadFull(c.conn, h[:]); err != nil {
		return err
	}
	kind, theirs, length := h[0], binary.BigEndian.Uint64(h[1:]), binary.BigEndian.Uint32(h[9:])
	if kind > kindEnd || length > maxData || kind == kindEnd && length > maxReason {
		return fmt.Errorf("%w: kind %d, %d bytes", errMalformed, kind, length)
	}
	if kind == kindEnd {
		reason := make([]byte, length)
		if _, err := io.ReadFull(c.conn, reason); err != nil {
			return err
		}
		if length == 0 {
			return &end{io.EOF}
		}
		return &end{fmt.Errorf("the other end says: %s", reason)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.carrier == c {
		if err := s.release(theirs); err != nil {
			return err
		}
	}
	c.left = int(length)
	return nil
}

// Write takes all of b, unless the stream is over. It waits for the connection that there is,
// never for the other end.
func (s *Stream) Write(b []byte) (int, error) {
	s.mu.Lock()
	if s.failed == nil && len(s.held)+len(b) > maxUnread {
		s.mu.Unlock()
		s.finish(errFull, nil)
		return 0, errFull
	}
	defer s.unlock()
	if s.failed != nil {
		return 0, s.failed
	}
	s.held = append(s.held, b...)
	s.send(b)
	return len(b), nil
}

// send has the carrier, if there is one, carry bytes; none say only what was read. The caller
// holds the lock.
func (s *Stream) send(b []byte) {
	for c := s.carrier; c != nil; {
		part := b[:min(len(b), maxData)]
		b = b[len(part):]
		if _, err := c.conn.Write(s.record(kindData, part)); err != nil {
			s.lose(c, err)
			return
		}
		s.said = s.read
		if len(b) == 0 {
			return
		}
	}
}

func (s *Stream) record(kind byte, data []byte) []byte {
	r := make([]byte, 0, headerBytes+len(data))
	r = append(r, kind)
	r = binary.BigEndian.AppendUint64(r, s.read)
	r = binary.BigEndian.AppendUint32(r, uint32(len(data)))
	return append(r, data...)
}

// Close ends the stream at both ends. The other hears of it if there is a connection.
func (s *Stream) Close() error {
	s.finish(net.ErrClosed, []byte{})
	return nil
}

// End is Close for a reason, which the other end hears.
func (s *Stream) End(why error) { s.finish(why, []byte(why.Error())) }

// finish ends the stream for a reason, unless it has one. Last, unless nil, is what the other
// end hears.
func (s *Stream) finish(why error, last []byte) {
	s.mu.Lock()
	if s.failed != nil {
		s.mu.Unlock()
		return
	}
	s.failed = why
	s.away.Stop()
	if c := s.carrier; c != nil && last != nil {
		_, _ = c.conn.Write(s.record(kindEnd, last[:min(len(last), maxReason)])) // it may be gone
	}
	s.held = nil
	s.lose(s.carrier, why)
	close(s.over)
	s.unlock()
	if s.o.OnOver != nil {
		s.o.OnOver()
	}
}
