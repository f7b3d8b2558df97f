// Package linkem is a wire between two network devices, made in user space: it
// carries Ethernet frames from one port to the other and back with a planted
// delay, jitter, loss, duplication, reordering and rate. It needs nothing of
// the kernel but TUN/TAP or packet sockets, so it works where netem is missing,
// and it needs no privilege beyond those of a user namespace.
//
// # Frames and super-packets
//
// A port hands over what the kernel would hand to a network card that
// segments in hardware: frames of up to 64 KiB, each with a virtio-net header
// that says how the card would cut it. A link emulator forwards such a super-packet
// verbatim and never cuts it. This is what makes 10 Gbit/s possible, and it
// has consequences that a reader of results must know:
//
//   - Loss, duplication and reordering act on the frame as it arrives: a lost
//     super-packet takes up to 44 segments of 1448 bytes with it. The fraction
//     of bytes lost is as planted, but losses come in bursts. Set
//     [Config.NoOffload] where losses must hit single segments; the kernel
//     then cuts before the link emulator, at the price of throughput.
//   - The rate counts a super-packet as all of the frames a real wire would
//     carry, headers repeated (see [WireBytes]); the super-packet leaves when its
//     last segment would have. So a bulk TCP flow sees up to 64 KiB of
//     serialisation in its round trip: 5 ms at 100 Mbit/s, 0.5 ms at 1 Gbit/s.
//     Where that matters, set NoOffload.
//   - The queue limit of a rate admits or drops a super-packet as a whole.
//
// # Stages
//
// In each direction a frame passes, in this order: loss, duplication, rate of its
// flow (with a queue for each flow), rate (with its queue), delay (with its
// jitter), reordering. A direction that has neither rate, delay nor reordering
// has no queue at all: a frame is read and written, by one thread, from one
// buffer.
//
// # Conventions
//
// Rates and byte counts are of layer 2 without the frame check sequence,
// preamble and inter-frame gap, as Linux's tbf counts: a full frame of an MTU
// of 1500 is 1514 bytes.
package linkem
