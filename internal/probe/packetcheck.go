package probe

import (
	"fmt"
	"time"

	"github.com/hopbench/hopbench/internal/protocol"
)

// checkPackets does so for a flow of a udp or pps test.
func checkPackets(f *packetFlow, bins int, width time.Duration) error {
	p := f.received.Packets
	if p == nil {
		return fmt.Errorf("%w: no count of packets", protocol.ErrMalformed)
	}
	if err := checkBins(f.received.Bins, bins, width); err != nil {
		return err
	}
	if err := f.received.Check(); err != nil {
		return err
	}
	if err := atMost("bytes", sumOf(f.received.Bins.Bytes), f.sent.Bytes); err != nil {
		return err
	}
	if p.Sent != f.sent.MeasuredPackets {
		return fmt.Errorf("%w: %d packets of the %d that were sent in the measured time", protocol.ErrMalformed, p.Sent, f.sent.MeasuredPackets)
	}
	if f.send != nil {
		return atMost("packets", sumOf(p.Bins), f.send.sent.Load())
	}
	if size := f.sent.PacketBytes; size < dataBytes || size > maxDatagram {
		return fmt.Errorf("%w: packets of %d bytes", protocol.ErrMalformed, size)
	}
	return nil
}
