package iperf3

import (
	"context"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/tcpinfo"
)

// ReadStream reads how many bytes of a stream reached its other end so far: this end received
// them, or the kernel there acknowledged them, as info tells. It is false where that is not known.
type ReadStream func() (bytes int64, info measurement.TCPInfo, ok bool)

// watched has whoever wants to watch the streams, until the returned function is called.
func (t *client) watched() (ended func()) {
	if t.req.Watch == nil || t.udp {
		return func() {}
	}
	read := make([]ReadStream, len(t.streams))
	for i, s := range t.streams {
		read[i] = s.moved
	}
	return t.req.Watch(t.start, read)
}

// moved is a ReadStream.
func (s *stream) moved() (bytes int64, info measurement.TCPInfo, ok bool) {
	if !s.sender {
		return s.bytes.Load(), info, true
	}
	bytes, info, ok = s.conn.Acknowledged()
	return max(bytes-cookieBytes, 0), info, ok
}

const (
	infoInterval     = 20 * time.Millisecond
	progressInterval = 200 * time.Millisecond
)

// watch samples the sending sockets and shows progress until ctx ends.
func (t *client) watch(ctx context.Context, progress func(measurement.Progress)) {
	for i, s := range t.streams {
		if s.sender && !t.udp {
			t.infos[i] = tcpinfo.New(s.conn, t.start, tcpinfo.Kept(len(t.streams)), 1, nil)
		}
	}
	ticker := time.NewTicker(infoInterval * time.Duration(1+len(t.streams)/16))
	defer ticker.Stop()
	shown, last := t.start, int64(0)
	for {
		var sum int64
		for i, s := range t.streams {
			sum += s.bytes.Load()
			t.infos[i].Due(time.Now())
		}
		if now := time.Now(); now.Sub(shown) >= progressInterval {
			progress(measurement.Progress{
				Elapsed:    measurement.SecondsOf(now.Sub(t.start)),
				Throughput: float64(sum-last) * 8 / now.Sub(shown).Seconds(),
			})
			shown, last = now, sum
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
