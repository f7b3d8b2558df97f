package udp

import (
	"fmt"
	"time"

	"github.com/hopbench/hopbench/internal/probe/datagram"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
)

// checkFlow does so for a flow of a udp or pps test.
func checkFlow(f *flow, bins int, width time.Duration) error {
	p := f.received.Packets
	if p == nil {
		return fmt.Errorf("%w: no count of packets", protocol.ErrMalformed)
	}
	if err := session.CheckBins(f.received.Bins, bins, width); err != nil {
		return err
	}
	if err := f.received.Check(); err != nil {
		return err
	}
	if err := session.CheckAtMost("bytes", session.Sum(f.received.Bins.Bytes), f.sent.Bytes); err != nil {
		return err
	}
	if err := session.CheckAtMost("bytes of the measured time", float64(p.ReceivedBytes), p.Received*int64(f.sent.PacketBytes)); err != nil {
		return err
	}
	if p.Sent != f.sent.MeasuredPackets {
		return fmt.Errorf("%w: %d packets of the %d that were sent in the measured time", protocol.ErrMalformed, p.Sent, f.sent.MeasuredPackets)
	}
	if f.send != nil {
		return session.CheckAtMost("packets", session.Sum(p.Bins), f.send.sent.Load())
	}
	if size := f.sent.PacketBytes; size < datagram.DataBytes || size > datagram.MaxBytes {
		return fmt.Errorf("%w: packets of %d bytes", protocol.ErrMalformed, size)
	}
	return nil
}
