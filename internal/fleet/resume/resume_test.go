package resume

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/testutil"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wire is a connection that takes whatever is written at once, until it is cut: it then
// loses a part of what was not read.
type wire struct {
	mu     sync.Mutex
	cond   *sync.Cond
	bytes  []byte
	broken bool
}

func newWire() *wire {
	c := &wire{}
	c.cond = sync.NewCond(&c.mu)
	return c
}

var errCut = errors.New("cut")

func (c *wire) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken {
		return 0, errCut
	}
	c.bytes = append(c.bytes, b...)
	c.cond.Broadcast()
	return len(b), nil
}

func (c *wire) Read(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.bytes) == 0 && !c.broken {
		c.cond.Wait()
	}
	if len(c.bytes) == 0 {
		return 0, errCut
	}
	n := copy(b, c.bytes)
	c.bytes = c.bytes[n:]
	return n, nil
}

// all is to lose nothing of what was written.
const all = -1

func (c *wire) cut(keep int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = true
	if keep != all {
		c.bytes = c.bytes[:min(keep, len(c.bytes))]
	}
	c.cond.Broadcast()
}

// plug is one end of two wires.
type plug struct{ in, out *wire }

func (p plug) Read(b []byte) (int, error)  { return p.in.Read(b) }
func (p plug) Write(b []byte) (int, error) { return p.out.Write(b) }
func (p plug) Close() error {
	p.in.cut(all)
	p.out.cut(all)
	return nil
}

// connect has two ends carried by two new wires.
func connect(t testing.TB, a, b *Stream) (there, back *wire) {
	t.Helper()
	why := errors.New("a new connection")
	readA, readB := a.Detach(why), b.Detach(why)
	there, back = newWire(), newWire()
	_, err := a.Attach(plug{back, there}, readB)
	testutil.OK(t, err)
	_, err = b.Attach(plug{there, back}, readA)
	testutil.OK(t, err)
	return there, back
}

func pair(t testing.TB) (a, b *Stream) {
	a, b = New(Options{Away: time.Hour}), New(Options{Away: time.Hour})
	t.Cleanup(func() { testutil.OK(t, errors.Join(a.Close(), b.Close())) })
	return a, b
}

// However often connections are cut, with whatever of what was under way lost, each end reads
// what the other wrote: nothing is lost, and nothing comes twice.
func TestKilledConnections(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		a, b := pair(t)
		there, back := connect(t, a, b)
		said := [2][]byte{make([]byte, 30_000), make([]byte, 70_000)}
		for _, text := range said {
			for i := range text {
				text[i] = byte(random.Uint32())
			}
		}
		var works sync.WaitGroup
		var heard [2][]byte
		var failed [4]error
		for i, end := range []*Stream{a, b} {
			sizes := rand.New(rand.NewPCG(seed, uint64(2+i)))
			works.Go(func() {
				for rest := said[i]; len(rest) > 0 && failed[i] == nil; {
					n := min(len(rest), 1+sizes.IntN(4000))
					_, failed[i] = end.Write(rest[:n])
					rest = rest[n:]
				}
			})
			heard[i] = make([]byte, len(said[1-i]))
			works.Go(func() { _, failed[2+i] = io.ReadFull(end, heard[i]) })
		}
		done := make(chan struct{})
		go func() { works.Wait(); close(done) }()
		for cuts := 0; ; cuts++ {
			select {
			case <-done:
			default:
				there.cut(random.IntN(1000))
				back.cut(random.IntN(1000))
				there, back = connect(t, a, b)
				continue
			}
			break
		}
		if err := errors.Join(failed[:]...); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !bytes.Equal(heard[0], said[1]) || !bytes.Equal(heard[1], said[0]) {
			t.Fatalf("seed %d: what was read is not what was written", seed)
		}
	}
}

// What was read is let go of, also where the other end has nothing to say.
func TestHeldIsReleased(t *testing.T) {
	a, b := pair(t)
	connect(t, a, b)
	go func() { _, _ = io.Copy(io.Discard, a) }()
	block := make([]byte, sayEvery)
	for range 2 * maxUnread / len(block) {
		_, err := a.Write(block)
		testutil.OK(t, err)
		_, err = io.ReadFull(b, make([]byte, len(block)))
		testutil.OK(t, err)
	}
}

// An end that reads nothing does not take all memory.
func TestFull(t *testing.T) {
	a, _ := pair(t)
	_, err := a.Write(make([]byte, maxUnread))
	testutil.OK(t, err)
	if _, err := a.Write([]byte("x")); !errors.Is(err, errFull) || !errors.Is(a.Err(), errFull) {
		t.Error(err, a.Err())
	}
}

// A good end is told as such, one with a reason with that, and what came before it is read.
func TestEnds(t *testing.T) {
	for _, c := range []struct {
		end  func(*Stream)
		want string
	}{
		{func(s *Stream) { testutil.OK(t, s.Close()) }, "EOF"},
		{func(s *Stream) { s.End(errors.New("why not")) }, "the other end says: why not"},
	} {
		a, b := pair(t)
		connect(t, a, b)
		_, err := a.Write([]byte("last words"))
		testutil.OK(t, err)
		c.end(a)
		<-a.Over()
		heard := make([]byte, 10)
		_, err = io.ReadFull(b, heard)
		testutil.OK(t, err)
		if _, err := b.Read(heard); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
		if _, err := b.Write([]byte("x")); err == nil {
			t.Error("the stream is over, and is written to")
		}
	}
}

// A stream whose connection does not come back is over, and says why that had ended.
func TestAway(t *testing.T) {
	over := make(chan struct{})
	a := New(Options{Away: time.Millisecond, OnOver: func() { close(over) }})
	<-over
	if err := a.Err(); err == nil || !strings.Contains(err.Error(), "no connection came") {
		t.Error(err)
	}
	b := New(Options{Away: time.Hour})
	near, far := net.Pipe()
	broken, err := b.Attach(near, 0)
	testutil.OK(t, err)
	testutil.OK(t, far.Close())
	read := make(chan error, 1)
	go func() {
		_, err := b.Read(make([]byte, 1))
		read <- err
	}()
	why := <-broken
	b.abandon(why)
	if err := <-read; err == nil || err.Error() != "EOF, and it did not come back in 1h0m0s" {
		t.Error(err)
	}
}

// Some reasons end the stream with its connection.
func TestFinal(t *testing.T) {
	a := New(Options{Away: time.Hour, Final: func(err error) bool { return errors.Is(err, errCut) }})
	there, back := newWire(), newWire()
	_, err := a.Attach(plug{back, there}, 0)
	testutil.OK(t, err)
	back.cut(0)
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, errCut) {
		t.Error(err)
	}
}

// What is no record ends the stream, and so does a word of bytes that were never written.
func TestNonsense(t *testing.T) {
	record := func(kind byte, read uint64, length uint32) []byte {
		b := binary.BigEndian.AppendUint64([]byte{kind}, read)
		return binary.BigEndian.AppendUint32(b, length)
	}
	for i, said := range [][]byte{record(2, 0, 0), record(0, 0, maxData+1), record(1, 0, maxReason+1), record(0, 1, 0), record(0, 1<<63, 0)} {
		a := New(Options{Away: time.Hour})
		there, back := newWire(), newWire()
		_, err := a.Attach(plug{back, there}, 0)
		testutil.OK(t, err)
		_, err = back.Write(said)
		testutil.OK(t, err)
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, errMalformed) {
			t.Errorf("%d: %v", i, err)
		}
	}
	a := New(Options{Away: time.Hour})
	if _, err := a.Attach(plug{newWire(), newWire()}, 7); !errors.Is(err, errMalformed) || a.Err() == nil {
		t.Error(err)
	}
}

// Whatever a connection brings, the stream has it in its order or is over.
func FuzzRecords(f *testing.F) {
	a := New(Options{Away: time.Hour})
	f.Cleanup(func() { a.Close() })
	f.Add(append(a.record(kindData, []byte("hello")), a.record(kindEnd, nil)...), 4)
	f.Add(append(a.record(kindData, nil), a.record(kindEnd, []byte("why"))...), 0)
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, 'x'}, 9)
	f.Fuzz(func(t *testing.T, said []byte, written int) {
		s := New(Options{Away: time.Hour, Final: func(err error) bool { return errors.Is(err, errCut) || errors.Is(err, io.ErrUnexpectedEOF) }})
		defer s.Close()
		there, back := newWire(), newWire()
		_, err := s.Attach(plug{back, there}, 0)
		testutil.OK(t, err)
		written = max(0, min(written, 1000))
		_, err = s.Write(make([]byte, written))
		testutil.OK(t, err)
		_, err = back.Write(said)
		testutil.OK(t, err)
		back.cut(all)
		heard, err := io.ReadAll(s)
		if len(heard) > len(said) || s.Err() == nil {
			t.Errorf("%d bytes of %d, %v, %v", len(heard), len(said), err, s.Err())
		}
		if s.released > uint64(written) {
			t.Error(fmt.Sprint("the other end has read what was never written: ", s.released))
		}
	})
}
