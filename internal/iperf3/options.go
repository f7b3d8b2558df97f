package iperf3

// options are what both ends set on the socket of a stream.
type options struct {
	udp          bool
	mss          int
	window       int // bytes of either socket buffer
	tos          int
	pacing       float64 // bit/s
	dontFragment bool
	device       string
}

func (p params) options() options {
	return options{
		udp: bool(p.UDP), window: int(p.Window), tos: int(p.TOS), pacing: p.FQRate,
		mss: int(p.MSS), dontFragment: bool(p.DontFragment),
	}
}
