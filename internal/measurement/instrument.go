package measurement

// How a test was measured, as Outcome.Effective records it. All of it follows from
// the spec and the hosts and is decided before START.

// Values of receive_wait, source_wait and destination_wait: what a thread that
// receives does when nothing is there.
const (
	WaitBlocking = "blocking" // in the kernel, until a packet comes
	WaitSpin     = "spin"     // it polls, which fills a CPU
	WaitPoller   = "poller"   // in the runtime's poller, with all other flows
)

// Values of placement: where the threads of the two ends run.
const (
	PlacementSeparate = "separate_cpus" // one host, never on the same CPU
	PlacementSame     = "same_cpu"      // one host, both on one CPU
	PlacementNone     = "unplaced"      // wherever the kernel's schedulers put them
)

// A crr test of more connections at a time has no thread for each, and one of larger
// requests or responses no thread that answers them all.
const (
	MaxThreadedConnections = 512
	MaxAnsweredAtOnce      = 4 << 10 // bytes
)

// Placed says whether the threads of a test's ends are placed: in tests that wait
// for each message, a round trip differs by the wake-up of another CPU if they share
// one. What is not a thread of the test's own cannot be placed, as an end that polls.
func (s Spec) Placed() bool {
	switch s.Kind {
	case RR:
		return !s.Spin
	case CRR:
		return s.Flows <= MaxThreadedConnections && max(s.RequestBytes, s.ResponseBytes) <= MaxAnsweredAtOnce
	}
	return false
}

// NotPlaced is why a test cannot have both ends on one CPU that is not Placed.
const NotPlaced = "both ends cannot run on one CPU (colocate): one that polls needs a CPU of its own, and more than 512 connections at a time, or messages of more than 4096 bytes, have no threads of their own"

// Values of send_method: how payload is handed to the kernel.
const (
	SentSplice   = "splice"   // references to a pipe's pages, splice(2)
	SentSendfile = "sendfile" // references to a file's pages, sendfile(2)
	SentCopy     = "copy"     // copied, send(2)
)

// Values of receive_method: what becomes of payload.
const (
	ReceivedDiscard = "discard" // dropped in the kernel (MSG_TRUNC, tcp(7))
	ReceivedCopy    = "copy"    // copied to user space
)

// Values of flow_scheduling: what the flows of an end run on.
const (
	ThreadPerFlow = "thread_per_flow"
	SharedPoller  = "shared_poller"
)

// Values of path_mtu_limit: what bounds path_mtu_bytes.
const (
	MTUSearch    = "search"     // the interface, or the largest size that was tried
	MTURouter    = "router"     // one that said so
	MTUBlackHole = "black_hole" // something that drops larger packets and says nothing
)

// Values of gso_off_reason: why a buffer of the UDP sender holds one packet.
const (
	OffAsked       = "asked"
	OffExceedsMTU  = "exceeds_mtu"
	OffOnePacket   = "one_packet_per_buffer" // two would not fit 64 KiB
	OffUnsupported = "unsupported"
)

// Values of receive_time: when a packet counts as received.
const (
	ReceiveTimeKernel = "kernel" // SO_TIMESTAMPING's, see socket(7)
	ReceiveTimeRead   = "read"   // when the receiver has read it
)

// Instrument names the keys of Outcome.Effective that say how a test was measured.
// Trials that differ in one of them cannot be compared.
func Instrument() []string {
	return []string{
		"placement", "receive_wait", "source_wait", "destination_wait", "flow_scheduling",
		"send_method", "receive_method", "receive_time", "gso", "gro",
	}
}
