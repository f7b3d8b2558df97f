package probe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"time"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/iperf3"
	"github.com/hopbench/hopbench/internal/measurement"
)

// newIPerf3Server is the part of a server that iperf3 clients talk to.
func (s *Server) newIPerf3Server() *iperf3.Server {
	denied, o := "", s.opts
	if o.Token != "" && !o.IPerf3Open {
		denied = "this server demands a token, which iperf3 cannot prove; --iperf3-open lets iperf3 clients in all the same"
	}
	return iperf3.NewServer(iperf3.Options{
		Denied: denied,
		Budget: s.budget, MaxStreams: min(o.MaxFlows, iperf3.MaxStreams), MaxDuration: o.MaxDuration,
		MaxRate: o.MaxRateBitsPerSecond, Log: o.Log,
		OnTest: func(e iperf3.Event) { s.tell(iperf3Event(e)) },
		Count: func(sends bool, moved func() int64) func() {
			return (&meter{counts: s.counts}).add(sends, moved)
		},
	})
}

// serveIPerf3 serves a connection of an iperf3 client, whose first byte was read.
func (s *Server) serveIPerf3(c *connection, first byte) error {
	c.guard.until(time.Now().Add(s.opts.MaxDuration + iperf3.Grace))
	err := s.iperf3.ServeConn(&iperf3.Conn{
		TCPConn: c.TCPConn, First: first, Order: c.order, Hold: c.guard.hold, Settle: c.guest.Leave,
	})
	if _, panicked := errors.AsType[*admission.Panic](err); panicked {
		return err
	}
	if err != nil {
		s.counts.refuse("iperf3")
	}
	return nil
}

func iperf3Event(e iperf3.Event) TestEvent {
	spec := measurement.Spec{
		Kind: measurement.TCP, Tool: measurement.IPerf3, Direction: e.Direction, Flows: e.Streams,
		Duration: measurement.SecondsOf(e.Duration), MaxWarmup: measurement.SecondsOf(e.Omit),
	}
	if e.UDP {
		spec.Kind, spec.RateBitsPerSecond = measurement.UDP, e.Rate
	}
	return TestEvent{Client: e.Client, Spec: spec, Ended: e.Ended, Elapsed: e.Elapsed, Err: e.Err, Vanished: e.Vanished}
}

// iperf3Datagram hands a packet of the listening UDP socket to the iperf3
// server, which ignores what it does not know.
func (s *Server) iperf3Datagram(from netip.AddrPort, packet []byte) {
	if iperf3.IsHello(packet) {
		s.iperf3.Datagram(from, packet)
	}
}

// runIPerf3 does a tcp or udp test with an iperf3 server as the other end.
func runIPerf3(ctx context.Context, req Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
	op := fmt.Sprintf("iperf3 %s test to %s", req.Spec.Kind, req.Target)
	if err := iperf3Can(req.Spec); err != nil {
		return measurement.Outcome{}, &Error{Op: op, Reason: Unsupported, Err: err}
	}
	giveBack, err := needThreads(connections(req.Spec))
	if err != nil {
		return measurement.Outcome{}, err
	}
	defer giveBack()
	r, facts := iperf3Request(req)
	var host *hostSampler
	var started time.Time
	r.Started = func(at time.Time) { started, host = at, startHostSampler(at) }
	result, err := iperf3.Run(ctx, r, progress)
	if host != nil {
		defer host.end()
	}
	if err != nil {
		return measurement.Outcome{}, iperf3Failure(op, err)
	}
	out := iperf3Outcome(req.Spec, r, result)
	from := float64(r.Omit)
	out.Source = endOf(host.result(), from, from+result.Took.Seconds(), 0)
	out.Started = started
	out.Facts = appendNew(facts, out.Facts...)
	return out, nil
}

// iperf3Can refuses what iperf3 has no words for.
func iperf3Can(s measurement.Spec) error {
	var errs []error
	refuse := func(asked bool, what string) {
		if asked {
			errs = append(errs, fmt.Errorf("%s is not possible with an iperf3 server; leave it out, or use this project's server", what))
		}
	}
	refuse(s.Flows > iperf3.MaxStreams, fmt.Sprintf("more than %d flows", iperf3.MaxStreams))
	refuse(s.LossBound > 0, "a search for the highest rate")
	refuse(s.GSO == measurement.On, "gso: on")
	refuse(s.GRO == measurement.On, "gro: on")
	refuse(s.MPTCP, "Multipath TCP")
	refuse(s.CopyPayload, "copying the payload")
	refuse(s.SendMethod == measurement.SendZerocopy, "sending without a copy")
	return errors.Join(errs...)
}

// iperf3Request translates a spec, and says where that is not exact.
func iperf3Request(req Request) (iperf3.Request, []string) {
	s := req.Spec
	facts := []string{}
	seconds, omit := math.Ceil(float64(s.Duration)), math.Ceil(float64(s.MaxWarmup))
	if seconds != float64(s.Duration) || omit != float64(s.MaxWarmup) {
		facts = append(facts, fmt.Sprintf("iperf3 counts in whole seconds: %v s were measured after %v s of warm-up", seconds, omit))
	}
	window := max(s.WindowBytes, s.SendBufferBytes, s.ReceiveBufferBytes)
	if window > 0 {
		facts = append(facts, fmt.Sprintf("iperf3 has one size for the socket buffers of both ends, and no bound of the window: %d bytes", window))
	}
	width := minBinWidth * max(time.Duration((seconds+omit)*1e9+maxBins*float64(minBinWidth)-1)/(maxBins*minBinWidth), 1)
	return iperf3.Request{
		Target: req.Target, Source: req.Source, SourcePort: s.SourcePort, Device: s.Device,
		UDP: s.Kind == measurement.UDP, Direction: s.Direction, Streams: s.Flows,
		Seconds: int(seconds), Omit: int(omit),
		Congestion: s.CongestionControl, MSS: s.MSSBytes, Window: int(window), TOS: s.DSCP << 2,
		FQRate: s.PacingBitsPerSecond, Rate: s.RateBitsPerSecond / float64(max(s.Flows, 1)), PacketBytes: s.PacketBytes,
		BinWidth: width,
	}, facts
}

// iperf3Failure gives an error its reason.
func iperf3Failure(op string, err error) error {
	var remote *iperf3.RemoteError
	switch {
	case errors.Is(err, iperf3.ErrBusy):
		return &Error{Op: op, Reason: Limit, Err: err}
	case errors.As(err, &remote) && remote.Limit():
		return &Error{Op: op, Reason: Limit, Err: err}
	case errors.As(err, &remote):
		return &Error{Op: op, Reason: Failed, Err: err}
	case errors.Is(err, iperf3.ErrMalformed):
		return &Error{Op: op, Reason: Protocol, Err: err}
	}
	return failure(op, err)
}

// iperf3Outcome turns what both ends counted into metrics.
func iperf3Outcome(spec measurement.Spec, r iperf3.Request, result iperf3.Result) measurement.Outcome {
	out := measurement.Outcome{
		Metrics: measurement.Metrics{}, Warmup: measurement.Seconds(r.Omit),
		Effective: map[string]string{}, Facts: result.Facts,
	}
	if spec.Direction == measurement.Receive {
		out.Throughput = result.Bins
	}
	for _, s := range result.Streams {
		out.Flows = append(out.Flows, measurement.Flow{
			Reverse: s.Reverse && spec.Direction == measurement.Both, Source: s.Local, Destination: s.Remote,
			ReceivedBytes: s.Received, SentBytes: s.Sent, Final: s.Final, Info: s.Info,
		})
	}
	there, back := iperf3Goodput(result, false), iperf3Goodput(result, true)
	out.Metrics["goodput_bits_per_second"] = there + back
	if spec.Direction == measurement.Both {
		out.Metrics["forward_goodput_bits_per_second"], out.Metrics["reverse_goodput_bits_per_second"] = there, back
	}
	if spec.Kind == measurement.UDP {
		addIPerf3Packets(out.Metrics, result)
	} else {
		addIPerf3TCP(out.Metrics, r, result)
	}
	iperf3Effective(&out, spec, result)
	out.Facts = append(out.Facts, fmt.Sprintf(
		"the iperf3 server's process used %.0f %% of one processor by its own account; what its host spent besides is not known", result.ServerCPUPercent))
	return out
}

// iperf3Goodput sums the rates of the streams of one direction, each over its
// receiver's own time.
func iperf3Goodput(result iperf3.Result, reverse bool) float64 {
	var sum float64
	for _, s := range result.Streams {
		if s.Reverse == reverse && s.ReceivedSeconds > 0 {
			sum += float64(s.Received) * 8 / s.ReceivedSeconds
		}
	}
	return sum
}

func addIPerf3Packets(m measurement.Metrics, result iperf3.Result) {
	var packets, lost, disorder, jitter, sent, rate float64
	known := true
	for _, s := range result.Streams {
		packets, lost, disorder = packets+float64(s.Packets), lost+float64(s.Lost), disorder+float64(s.OutOfOrder)
		jitter += s.JitterSeconds
		known = known && s.OutOfOrder >= 0
		if s.SentSeconds > 0 {
			sent += float64(s.Sent) * 8 / s.SentSeconds
		}
		if s.ReceivedSeconds > 0 {
			rate += float64(min(s.Packets-s.Lost, s.Packets)) / s.ReceivedSeconds
		}
	}
	m["jitter_seconds"] = jitter / float64(len(result.Streams))
	m["received_packets_per_second"] = max(rate, 0)
	m["sent_bits_per_second"] = sent
	if packets > 0 {
		m["loss_fraction"] = clampFraction(lost / packets)
		if known {
			m["reordered_fraction"] = clampFraction(disorder / packets)
		}
	}
}

// addIPerf3TCP takes what the sending sockets of this end saw in the measured
// time; of the server's it knows the retransmits.
func addIPerf3TCP(m measurement.Metrics, r iperf3.Request, result iperf3.Result) {
	from := float64(r.Omit)
	to := from + result.Took.Seconds()
	var retransmits int64
	var rtt, cwnd, samples, receiveLimited, bufferLimited, flows float64
	known := true
	for _, s := range result.Streams {
		known = known && s.Retransmits >= 0
		retransmits += s.Retransmits
		if s.Final == nil {
			continue
		}
		flows++
		for _, i := range s.Info {
			if at := float64(i.At); at >= from && at <= to {
				rtt, cwnd, samples = rtt+float64(i.RTT), cwnd+float64(i.CongestionWindow), samples+1
			}
		}
		receiveLimited += shareOf(s.Info, from, to, func(i measurement.TCPInfo) float64 { return float64(i.ReceiveWindowTime) })
		bufferLimited += shareOf(s.Info, from, to, func(i measurement.TCPInfo) float64 { return float64(i.SendBufferTime) })
	}
	if known {
		m["retransmitted_segments"] = float64(retransmits)
	}
	if flows > 0 {
		m["receive_window_limited_fraction"] = clampFraction(receiveLimited / flows)
		m["send_buffer_limited_fraction"] = clampFraction(bufferLimited / flows)
	}
	if samples > 0 {
		m["tcp_rtt_mean_seconds"], m["congestion_window_bytes"] = rtt/samples, cwnd/samples
	}
}

func iperf3Effective(out *measurement.Outcome, spec measurement.Spec, result iperf3.Result) {
	set := func(key, value string) {
		if value != "" && value != "0" {
			out.Effective[key] = value
		}
	}
	set("tool", "iperf3")
	sends, receives := result.Congestion, result.ServerCongestion
	if spec.Direction == measurement.Receive {
		sends, receives = receives, ""
	}
	if spec.Kind == measurement.TCP {
		set("congestion_control", sends)
		set("mss_bytes", fmt.Sprint(result.MSSBytes))
	}
	if spec.Direction == measurement.Both {
		set("reverse_congestion_control", receives)
	}
	set("packet_bytes", fmt.Sprint(result.PacketBytes))
	if spec.Direction != measurement.Send && spec.Kind == measurement.TCP {
		method := measurement.ReceivedCopy
		if result.DiscardsInKernel {
			method = measurement.ReceivedDiscard
		}
		set("receive_method", method)
	}
}
