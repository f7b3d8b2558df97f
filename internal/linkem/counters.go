package linkem

import (
	"sync/atomic"
	"time"
)

// DirectionCounters count what happened to the frames of one direction. A
// super-packet is one frame. Every frame ends in exactly one of Frames,
// LostFrames, QueueDroppedFrames, RefusedFrames and DeniedFrames, or is still
// on the wire:
//
//	ReceivedFrames + DuplicatedFrames + AddedFrames =
//		Frames + LostFrames + QueueDroppedFrames + RefusedFrames + DeniedFrames + on the wire
type DirectionCounters struct {
	ReceivedFrames uint64 `json:"received_frames"` // came in at the port
	Frames         uint64 `json:"frames"`          // went out at the other port
	Bytes          uint64 `json:"bytes"`           // of Frames, as WireBytes counts
	LostFrames     uint64 `json:"lost_frames"`     // by LossFraction
	// QueueDroppedFrames did not fit the queue of the rate or of their flow's
	// rate, or the memory of the link emulator.
	QueueDroppedFrames uint64 `json:"queue_dropped_frames"`
	// FlowDroppedFrames are those of QueueDroppedFrames that did not fit the
	// queue of their flow's rate.
	FlowDroppedFrames uint64 `json:"flow_dropped_frames,omitempty"`
	// Busy is how long the wire takes to send, at its rate, all that was admitted
	// to it; FlowBusy is the same of the flows' own wires, added up.
	Busy     time.Duration `json:"busy_nanoseconds,omitempty"`
	FlowBusy time.Duration `json:"flow_busy_nanoseconds,omitempty"`
	// Thread is how long the direction's thread ran or waited for a CPU, 0 where
	// the system does not tell.
	Thread           time.Duration `json:"thread_nanoseconds,omitempty"`
	DuplicatedFrames uint64        `json:"duplicated_frames"` // extra copies made
	ReorderedFrames  uint64        `json:"reordered_frames"`  // overtaken by the next
	// RefusedFrames were not accepted by the far device: it was down, or the
	// frame was malformed or larger than it takes.
	RefusedFrames uint64 `json:"refused_frames"`
	// OverrunFrames came faster than the link emulator could read, and never got as
	// far as ReceivedFrames. Only packet ports know; those of a TAP device are
	// in its own statistics, as tx_dropped.
	OverrunFrames uint64 `json:"overrun_frames"`
	// DeniedFrames were dropped by the Inspector, AddedFrames sent by it.
	DeniedFrames uint64 `json:"denied_frames,omitempty"`
	AddedFrames  uint64 `json:"added_frames,omitempty"`
	// HandOverCPU is the CPU time that handing the frames over to the far
	// device took, estimated from one frame in meterGap: all that the kernel does
	// with them there before another thread takes over, such as filtering and
	// forwarding in that device's namespace. It is 0 where the system does not
	// tell a thread its time.
	HandOverCPU time.Duration `json:"hand_over_cpu_nanoseconds,omitempty"`
}

// Counters are those of both directions.
type Counters struct {
	Forward  DirectionCounters `json:"forward"`
	Backward DirectionCounters `json:"backward"`
}

// tally is written by one thread, but for what an inspector sends back, and
// read by any.
type tally struct {
	received, frames, bytes, lost, dropped, duplicated, reordered, refused, denied, added, handOver, flowDropped, busy, flowBusy atomic.Uint64
	_                                                                                                                            [64]byte // the other direction's thread writes elsewhere
}

func (t *tally) read() DirectionCounters {
	return DirectionCounters{
		ReceivedFrames:     t.received.Load(),
		Frames:             t.frames.Load(),
		Bytes:              t.bytes.Load(),
		LostFrames:         t.lost.Load(),
		QueueDroppedFrames: t.dropped.Load(),
		DuplicatedFrames:   t.duplicated.Load(),
		ReorderedFrames:    t.reordered.Load(),
		RefusedFrames:      t.refused.Load(),
		DeniedFrames:       t.denied.Load(),
		AddedFrames:        t.added.Load(),
		HandOverCPU:        time.Duration(t.handOver.Load()),
		FlowDroppedFrames:  t.flowDropped.Load(),
		Busy:               time.Duration(t.busy.Load()),
		FlowBusy:           time.Duration(t.flowBusy.Load()),
	}
}
