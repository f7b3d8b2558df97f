package soak

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"
)

// What an iperf3 client and its server say on the control connection
// (src/iperf_api.h).
const (
	iperf3TestStart    = 1
	iperf3TestRunning  = 2
	iperf3TestEnd      = 4
	iperf3Parameters   = 9
	iperf3Streams      = 10
	iperf3Results      = 13
	iperf3Denied       = -1
	iperf3Error        = -2
	iperf3CookieBytes  = 37
	iperf3RecvParams   = 114
	iperf3LastPossible = 127
)

// iperf3Refusal is an iperf3 server's own word that it does not do a test.
type iperf3Refusal struct{ code int }

func (r *iperf3Refusal) Error() string { return fmt.Sprintf("refused with iperf3's code %d", r.code) }

// iperf3Session is an iperf3 client's test: the control connection and its streams.
type iperf3Session struct {
	*conn
	cookie  []byte
	streams []*conn
}

func (s *iperf3Session) Close() error {
	closeAll(s.streams)
	return s.conn.Close()
}

// expect reads states up to the wanted one.
func (s *iperf3Session) expect(want ...int8) error {
	for len(want) > 0 {
		var b [1]byte
		if _, err := io.ReadFull(s, b[:]); err != nil {
			return err
		}
		switch got := int8(b[0]); got {
		case want[0]:
			want = want[1:]
		case iperf3Denied:
			return &iperf3Refusal{}
		case iperf3Error:
			var codes [8]byte
			if _, err := io.ReadFull(s, codes[:]); err != nil {
				return err
			}
			return &iperf3Refusal{int(binary.BigEndian.Uint32(codes[:]))}
		default:
			return fmt.Errorf("state %d, want %d", got, want[0])
		}
	}
	return nil
}

func (s *iperf3Session) send(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = s.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

// iperf3Turn is how long a client waits for its turn, of which a server may make
// it wait for a minute.
const iperf3Turn = 5 * time.Second

// iperf3Open connects and sends the cookie, and returns when it is the client's turn.
func (c *client) iperf3Open(ctx context.Context) (*iperf3Session, error) {
	to, err := c.dial(ctx, "tcp")
	if err != nil {
		return nil, err
	}
	s := &iperf3Session{conn: to, cookie: make([]byte, iperf3CookieBytes)}
	const alphabet = "abcdefghijklmnopqrstuvwxyz234567"
	for i := range iperf3CookieBytes - 1 {
		s.cookie[i] = alphabet[c.r.IntN(len(alphabet))]
	}
	_, err = s.Write(s.cookie)
	if err == nil {
		err = s.within(ctx, iperf3Turn)
	}
	if err == nil {
		err = s.expect(iperf3Parameters)
	}
	if err == nil {
		err = s.within(ctx, 2*patience)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// iperf3Start brings a test to TEST_RUNNING.
func (c *client) iperf3Start(ctx context.Context, parameters map[string]any, streams int) (*iperf3Session, error) {
	s, err := c.iperf3Open(ctx)
	if err != nil {
		return nil, err
	}
	fail := func(err error) (*iperf3Session, error) { return nil, errors.Join(err, s.Close()) }
	if err := s.send(parameters); err != nil {
		return fail(err)
	}
	if err := s.expect(iperf3Streams); err != nil {
		return fail(err)
	}
	for range streams {
		to, err := c.dial(ctx, "tcp")
		if err != nil {
			return fail(err)
		}
		s.streams = append(s.streams, to)
		if _, err := to.Write(s.cookie); err != nil {
			return fail(err)
		}
	}
	if err := s.expect(iperf3TestStart, iperf3TestRunning); err != nil {
		return fail(err)
	}
	return s, nil
}

// noteIPerf3 counts a refusal as what it is.
func (c *client) noteIPerf3(ctx context.Context, name string, err error) bool {
	if refused, ok := errors.AsType[*iperf3Refusal](err); ok && ctx.Err() == nil {
		c.add(name, refused.Error())
		return false
	}
	return c.note(ctx, name, err)
}

// iperf3Streams holds tests with the most streams that there may be, and with
// fewer where those are refused.
func (c *client) iperf3Streams(ctx context.Context, name string) {
	var held []*iperf3Session
	for parallel := 128; parallel > 0 && len(held) < 4 && ctx.Err() == nil; {
		s, err := c.iperf3Start(ctx, map[string]any{"tcp": true, "omit": 0, "time": 300, "parallel": parallel,
			"bidirectional": true, "len": 131072, "pacing_timer": 1000, "client_version": "3.16"}, 2*parallel)
		if !c.noteIPerf3(ctx, name, err) {
			parallel /= 2
			continue
		}
		held = append(held, s)
	}
	c.stay(ctx)
	closeAll(held)
}

// iperf3Hogs take turns and send next to nothing, for as long as they can.
func (c *client) iperf3Hogs(ctx context.Context, name string) {
	var held []*iperf3Session
	for range 64 {
		s, err := c.iperf3Start(ctx, map[string]any{"tcp": true, "omit": 0, "time": 0, "num": 1 << 40, "parallel": 1, "len": 1, "client_version": "3.16"}, 1)
		if !c.noteIPerf3(ctx, name, err) {
			break
		}
		held = append(held, s)
	}
	until := time.Now().Add(time.Duration(2+c.r.IntN(30)) * time.Second)
	for time.Now().Before(until) && ctx.Err() == nil {
		for _, s := range held {
			_, _ = s.streams[0].Write([]byte("x")) // the server may have ended it
		}
		pause(ctx, 500*time.Millisecond)
	}
	closeAll(held)
}

// iperf3Lies sends parameters and results that no iperf3 would.
func (c *client) iperf3Lies(ctx context.Context, name string) {
	long := slices.Repeat([]string{steering}, 100)
	for _, parameters := range []any{
		map[string]any{"tcp": true, "time": 1, "parallel": 1, "len": 1000, "client_version": steering, "congestion": steering},
		map[string]any{"tcp": true, "time": -1e300, "omit": 1e300, "num": -1, "parallel": 1e18, "len": -5},
		map[string]any{"udp": true, "time": 1e9, "parallel": 128, "len": 65507, "bandwidth": 1e300, "bidirectional": true},
		map[string]any{"tcp": true, "time": 1, "parallel": 1, "authtoken": long, "title": long, "extra_data": long},
		[]int{}, "text", 1e300, nil,
	} {
		s, err := c.iperf3Open(ctx)
		if err == nil {
			err = s.send(parameters)
			if err == nil {
				_ = s.within(ctx, 2*time.Second) // else it has the longer time
				err = s.expect(iperf3Streams)
			}
			_ = s.Close()
		}
		c.noteIPerf3(ctx, name, err)
	}
	// Results that never come to their end.
	s, err := c.iperf3Start(ctx, map[string]any{"tcp": true, "time": 1, "parallel": 1, "len": 1000, "client_version": "3.16"}, 1)
	if !c.noteIPerf3(ctx, name, err) {
		return
	}
	defer s.Close()
	if _, err := s.Write([]byte{iperf3TestEnd}); err != nil || s.expect(iperf3Results) != nil {
		return
	}
	if _, err := s.Write(binary.BigEndian.AppendUint32(nil, 16<<10)); err == nil {
		c.trickled(ctx, net.Conn(s), "in an iperf3 client's results", trickleEvery)
	}
}
