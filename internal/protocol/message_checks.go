package protocol

import (
	"fmt"
	"net/netip"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/printable"
)

// What a peer writes is cleaned and checked where it is decoded, whole: its texts
// can be shown, and its numbers are ones that could have been counted, so that
// nothing made of them is infinite, negative or without end. Whether they were
// counted in this very test, its owner checks, who knows what it sent.
const (
	maxCount   = 1e15 // bytes, packets, segments: ten days at a Tbit/s
	maxSeconds = 1e7  // four months
	// MaxStamp is in nanoseconds: of a clock that counts from 1970, in 2096.
	MaxStamp   = 4e18
	minRate    = 8    // bit/s; what a spec asks for at least
	maxRate    = 1e21 // bit/s; a kernel's largest number of bytes per second is 1.5e20
	maxBins    = 20_000
	maxSeries  = 2000 // samples
	maxBusiest = 64
	maxDrops   = 1000
	maxFiles   = 1024 // transfers
	maxMTU     = 1 << 16
	maxCPUs    = 1 << 20
	maxRun     = 64 // bytes of what a run calls itself
)

// textBounds are those of the texts of a message, errorBounds of an error's, and
// agentBounds of what an agent
// passes on, in which those of its tests are and its own, which are longer.
var (
	textBounds  = printable.Bounds{Text: 255, Item: 500, Key: 64, Value: 200, Items: 100}
	errorBounds = printable.Bounds{Text: 1000}
	agentBounds = printable.Bounds{Text: 8000, Item: 4000, Key: 64, Value: 1000, Items: 1000}
)

// maxExplained bounds what is told of a payload that cannot be decoded.
const maxExplained = 200

// checker is a message that can be told from nonsense.
type checker interface{ Check() error }

// checks gathers the first thing that cannot be.
type checks struct{ err error }

func (c *checks) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
	}
}

func (c *checks) add(err error) {
	if c.err == nil {
		c.err = err
	}
}

// between is false for NaN, too.
func (c *checks) between(what string, v, least, most float64) {
	if !(v >= least && v <= most) {
		c.fail("%s of %g, must be %g to %g", what, v, least, most)
	}
}

func (c *checks) count(what string, n int64) { c.between(what, float64(n), 0, maxCount) }

func (c *checks) most(what string, n, most int) {
	if n > most {
		c.fail("%d %s, at most %d", n, what, most)
	}
}

// address may be unknown, where that is allowed.
func (c *checks) address(what, address string, unknown bool) {
	if unknown && address == "" {
		return
	}
	if a, err := netip.ParseAddrPort(address); err != nil || a.Port() == 0 {
		c.fail("%s is %q, which is no address with a port", what, address)
	}
}

// rising holds that a cumulative series does not run backwards.
func (c *checks) rising(what string, series []float64, most float64) {
	last := 0.0
	for _, v := range series {
		c.between(what, v, last, most)
		last = v
	}
}

// Check implements checker.
func (h *Hello) Check() error {
	var c checks
	c.nonce(h.Nonce)
	c.add(h.Identity.check())
	return c.err
}

// Check implements checker.
func (h *Challenge) Check() error {
	var c checks
	c.nonce(h.Nonce)
	return c.err
}

func (c *checks) nonce(b []byte) {
	if len(b) != NonceBytes {
		c.fail("nonce of %d bytes, want %d", len(b), NonceBytes)
	}
}

// Check implements checker.
func (o *Open) Check() error {
	var c checks
	if o.MaxRateBitsPerSecond != 0 {
		c.between("rate that a client allows in bit/s", o.MaxRateBitsPerSecond, minRate, maxRate)
	}
	c.most("bytes of the name of a run", len(o.Run), maxRun)
	return c.err
}

// Check implements checker.
func (r *Ready) Check() error {
	var c checks
	c.address("the client's address", r.Client, false)
	c.address("the server's address", r.Server, false)
	c.between("time to live", float64(r.ReceivedTTL), 0, 255)
	c.between("MSS", float64(r.MSS), 0, maxMTU)
	c.between("rate that a server allows in bit/s", r.MaxRateBitsPerSecond, 0, maxRate)
	if len(r.Cookie) != CookieBytes {
		c.fail("cookie of %d bytes, want %d", len(r.Cookie), CookieBytes)
	}
	if r.FTP != nil {
		c.between("port of the FTP server", float64(r.FTP.Port), 1, 65535)
	}
	return c.err
}

// Check implements checker.
func (r *Reached) Check() error {
	var c checks
	c.address("the source of UDP packets", r.Client, false)
	return c.err
}

// Check implements checker.
func (r *Received) Check() error {
	var c checks
	c.bins(r.Bins)
	c.clock(r.Clock)
	if p := r.Packets; p != nil {
		c.packets(p, len(r.Bins.Bytes))
	}
	c.host(r.Host)
	return c.err
}

func (c *checks) bins(b measurement.Bins) {
	c.between("width of a bin in seconds", float64(b.Width), 0, maxSeconds)
	c.most("bins", len(b.Bytes), maxBins)
	for _, n := range b.Bytes {
		c.between("bin in bytes", n, 0, maxCount)
	}
}

func (c *checks) packets(p *Packets, bins int) {
	if len(p.Bins) != bins {
		c.fail("%d bins of packets and %d of bytes", len(p.Bins), bins)
	}
	for _, n := range p.Bins {
		c.between("bin in packets", n, 0, maxCount)
	}
	c.count("count of packets sent", p.Sent)
	c.between("count of packets received", float64(p.Received), 0, float64(p.Sent))
	c.between("count of packets out of order", float64(p.Reordered), 0, float64(p.Received))
	c.count("count of bytes received", p.ReceivedBytes)
	c.between("time of arrival in seconds", float64(p.ArrivalTime), 0, maxSeconds)
	c.count("count of packets duplicated", p.Duplicated)
	c.count("count of packets dropped by a full buffer", p.BufferDrops)
	c.between("jitter in seconds", float64(p.Jitter), 0, maxSeconds)
	c.between("variation of delay in seconds", float64(p.DelayVariation), 0, maxSeconds)
	c.between("median variation of delay in seconds", float64(p.DelayMedian), 0, maxSeconds)
	c.between("least delay in seconds", float64(p.LeastDelay), -maxSeconds, maxSeconds)
}

// clock may be unknown.
func (c *checks) clock(k *Clock) {
	if k != nil {
		c.between("start in nanoseconds", float64(k.Start), 0, MaxStamp)
		c.between("stamp of the start in nanoseconds", float64(k.Stamped), 0, MaxStamp)
		c.between("uncertainty of a clock in seconds", float64(k.Uncertainty), 0, maxSeconds)
	}
}

// Check implements checker.
func (s *Sent) Check() error {
	var c checks
	c.count("count of bytes sent", s.Bytes)
	c.count("count of packets sent", s.MeasuredPackets)
	c.between("packet in bytes", float64(s.PacketBytes), 0, maxMTU)
	if !(float64(s.MeasuredPackets)*float64(s.PacketBytes) <= float64(s.Bytes)) {
		c.fail("%d packets of %d bytes in %d bytes sent", s.MeasuredPackets, s.PacketBytes, s.Bytes)
	}
	c.info(s.Final, s.Info)
	c.clock(s.Clock)
	c.host(s.Host)
	return c.err
}

// info checks the samples of a sender's socket.
func (c *checks) info(final *measurement.TCPInfo, series []measurement.TCPInfo) {
	c.most("samples of a socket", len(series), maxSeries)
	last := measurement.Seconds(0)
	for _, i := range series {
		c.between("time of a sample in seconds", float64(i.At), float64(last), maxSeconds)
		c.sample(i)
		last = i.At
	}
	if final != nil {
		c.between("time of the last sample in seconds", float64(final.At), 0, maxSeconds)
		c.sample(*final)
	}
}

func (c *checks) sample(i measurement.TCPInfo) {
	for _, s := range [...]measurement.Seconds{i.RTT, i.RTTVariation, i.MinRTT, i.Busy, i.ReceiveWindowTime, i.SendBufferTime} {
		c.between("time of a socket in seconds", float64(s), 0, maxSeconds)
	}
	for _, n := range [...]int64{
		i.CongestionWindow, i.SendWindow, i.MSS, i.PathMTU, i.Retransmits, i.SentBytes, i.RetransmittedBytes, i.InFlight,
	} {
		c.count("count of a socket", n)
	}
	c.between("rate of a socket in bit/s", i.PacingRate, 0, maxRate)
	c.between("rate of a socket in bit/s", i.DeliveryRate, 0, maxRate)
}

// host checks a series, in which what is cumulative by the clock must rise; the time
// that was busy is what the idle time leaves of that, and may fall by a tick.
func (c *checks) host(h *HostSeries) {
	if h == nil {
		return
	}
	c.between("number of CPUs", float64(h.CPUs), 0, maxCPUs)
	n := len(h.At)
	c.most("samples of a host", n, maxSeries)
	c.most("single CPUs", len(h.Busiest), maxBusiest)
	for _, series := range append([][]float64{h.Busy, h.SoftIRQ, h.Total}, h.Busiest...) {
		if len(series) != n {
			c.fail("a series of %d samples of a host and one of %d", len(series), n)
			return
		}
		for _, v := range series {
			c.between("CPU time in seconds", v, -maxCount, maxCount)
		}
	}
	for _, series := range [][]float64{h.Steal, h.Switches} {
		if k := len(series); k != 0 && k != n {
			c.fail("a series of %d samples of a host and one of %d", k, n)
		}
	}
	for _, v := range h.Steal {
		c.between("CPU time in seconds", v, -maxCount, maxCount)
	}
	c.rising("time of a sample in seconds", h.At, maxSeconds)
	c.rising("CPU time in seconds", h.Total, maxCount)
	c.rising("count of context switches", h.Switches, maxCount)
	c.most("places of lost packets", len(h.Drops), maxDrops)
	for _, d := range h.Drops {
		c.between("count of packets that a host lost", d.Packets, 0, maxCount)
	}
	c.between("count of squeezes", h.Squeezes, 0, maxCount)
	c.between("speed of a link in bit/s", h.Link, 0, maxRate)
	if o := h.OtherClients; o != nil {
		c.between("number of other clients", float64(o.Count), 1, maxCount)
		c.count("count of bytes of other clients", o.Bytes)
		if a, err := netip.ParseAddr(o.Address); o.Address != "" && (err != nil || a.Zone() != "") {
			c.fail("another client is at %q, which is no address", o.Address)
		}
	}
}

// Check implements checker.
func (r *Report) Check() error {
	var c checks
	c.count("count of answers", r.Answered)
	c.most("transfers", len(r.Transfers), maxFiles)
	for _, t := range r.Transfers {
		c.count("offset of a transfer", t.Offset)
		c.count("count of bytes of a transfer", t.Bytes)
		c.between("time of a transfer in seconds", float64(t.Took), 0, maxSeconds)
		c.address("the client's end of a transfer", t.Client, true)
		c.address("the server's end of a transfer", t.Server, true)
		if t.Bins != nil {
			c.bins(*t.Bins)
		}
		c.info(t.Final, t.Info)
	}
	c.host(r.Host)
	return c.err
}
