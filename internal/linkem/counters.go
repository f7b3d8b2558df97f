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
	// rate, or the memory of the cable.
	QueueDroppedFrames uint64 `json:"queue_dropped_frames"`
	DuplicatedFrames   uint64 `json:"duplicated_frames"` // extra copies made
	ReorderedFrames    uint64 `json:"reordered_frames"`  // overtaken by the next
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
	received, frames, bytes, lost, dropped, duplicated, reordered, refused, denied, added, handOver atomic.Uint64
	_                                                                                               [64]byte // the other direction's thread writes elsewhere
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
	}
}
