package agent

import (
	"encoding/json"
	"io"
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/testutil"
)

// FuzzFrames: whatever frames an agent sends, its client ends with an error, keeps a clock
// that can be asked, and never panics.
func FuzzFrames(f *testing.F) {
	for t, v := range map[protocol.Type]any{
		protocol.TypeAgentClock:    stamps{Sent: 1, At: math.MaxInt64},
		protocol.TypeAgentPrepared: about{ID: 1},
		protocol.TypeAgentProgress: progress{ID: 1},
		protocol.TypeError:         protocol.RemoteError{Reason: "timeout", Message: "\x1b]0;bye"},
		protocol.TypeAgentReply: reply{ID: 1, Stamp: math.MinInt64, Outcome: &measurement.Outcome{}, Hello: &Hello{Lease: 1e300, Interfaces: []Interface{{Name: "\n"}}},
			Proof: &probe.Proof{Server: netip.MustParseAddrPort("[fe80::1%lo]:1")}, Counters: &Counters{}, Canary: &Canary{Answer: "x"}},
	} {
		payload, err := json.Marshal(v)
		testutil.OK(f, err)
		f.Add(byte(t), payload)
	}
	f.Fuzz(func(t *testing.T, kind byte, payload []byte) {
		if len(payload) > 1<<16 {
			return
		}
		frame := make([]byte, protocol.HeaderBytes, protocol.HeaderBytes+len(payload))
		protocol.PutHeader(frame, protocol.Type(kind), len(payload))
		c := newClient(&said{rest: append(frame, payload...)})
		answer := &call{reply: make(chan reply, 1), prepared: make(chan struct{}, 1), over: func() {}}
		c.pending[1] = answer
		c.read()
		if c.Err() == nil {
			t.Fatal("the connection ended without an error")
		}
		if e, ok := c.Clock(); ok {
			c.clock.Moment(e.Ours(e.Theirs(c.clock.Now())))
		}
		if r, ok := <-answer.reply; ok {
			// As Run has it from a lying agent: it can still be written.
			started := c.clock.Moment(r.Stamp)
			if _, err := started.MarshalJSON(); err != nil {
				t.Errorf("a start of %v cannot be written: %v", r.Stamp, err)
			}
		}
	})
}

// said is a control connection on which an agent has said something and gone.
type said struct{ rest []byte }

func (s *said) Read(b []byte) (int, error) {
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *said) Write(b []byte) (int, error) { return len(b), nil }
func (s *said) Close() error                { return nil }

// What a client and its agent say to each other besides a test's own result is little:
// during a test less than 100 kbit/s.
func TestControlTrafficIsLittle(t *testing.T) {
	far := remote(t, Options{})
	at, err := far.Listen(testContext(t), anyPort(), Serving{Token: testToken})
	testutil.OK(t, err)
	near := remote(t, Options{})
	for range burst { // of the first exchanges
		testutil.OK(t, sleep(t.Context(), 2*burstEvery))
	}
	counted := &counting{ReadWriteCloser: near.control}
	near.writing.Lock()
	near.control = counted
	near.writing.Unlock()
	const length = 2
	began := time.Now()
	signs := 0
	received := 0
	_, err = near.Run(testContext(t), probe.Request{
		Target: at, Token: testToken,
		Spec: measurement.Spec{Kind: measurement.TCP, Duration: length, MaxWarmup: 0.1, PacingBitsPerSecond: 1e6},
	}, func(p measurement.Progress) {
		text, _ := json.Marshal(progress{ID: math.MaxUint32, Progress: p})
		signs++
		received += protocol.HeaderBytes + len(text)
	})
	testutil.OK(t, err)
	// Each frame is a segment of its own over TLS: 100 bytes of headers are plenty.
	seconds := time.Since(began).Seconds()
	bits := float64(counted.bytes+100*counted.frames+received+100*signs) * 8 / seconds
	t.Logf("%d frames to the agent with %d bytes, %d signs of life with %d: %.1f kbit/s", counted.frames, counted.bytes, signs, received, bits/1e3)
	if bits > 100e3 {
		t.Errorf("%.0f bit/s", bits)
	}
}

// counting counts what is written.
type counting struct {
	io.ReadWriteCloser
	frames, bytes int
}

func (c *counting) Write(b []byte) (int, error) {
	c.frames++
	c.bytes += len(b)
	return c.ReadWriteCloser.Write(b)
}
