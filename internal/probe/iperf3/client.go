// Package iperf3 is the client of a tcp or udp test whose other end is an iperf3 server: it
// translates what was asked for and what came out.
package iperf3

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/hopbench/hopbench/internal/iperf3"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/host"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/sampling"
	"github.com/hopbench/hopbench/internal/tcpinfo"
)

// Run does a tcp or udp test with an iperf3 server as the other end.
func Run(ctx context.Context, req session.Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
	op := fmt.Sprintf("iperf3 %s test to %s", req.Spec.Kind, req.Target)
	giveBack, err := session.NeedThreads(kind.Connections(req.Spec))
	if err != nil {
		return measurement.Outcome{}, err
	}
	defer giveBack()
	r, facts := request(req)
	var sampled *host.Sampler
	var started time.Time
	r.Started = func(at time.Time) { started, sampled = at, host.StartSampler(at) }
	if req.Watch != nil {
		r.Watch = func(start time.Time, streams []iperf3.ReadStream) func() {
			read := make([]session.ReadFlow, len(streams))
			for i, s := range streams {
				read[i] = func() (session.FlowCount, bool) {
					bytes, info, ok := s()
					return session.FlowCount{Bytes: bytes, RTT: info.RTT.Duration(), CongestionWindow: info.CongestionWindow, Retransmits: info.Retransmits}, ok
				}
			}
			return req.Watch(start, read)
		}
	}
	result, err := iperf3.Run(ctx, r, progress)
	if sampled != nil {
		defer sampled.End()
	}
	if err != nil {
		return measurement.Outcome{}, wrap(op, err)
	}
	out := outcome(req.Spec, r, result)
	from := float64(r.Omit)
	out.Source = host.EndOf(sampled.Result(), from, from+result.Took.Seconds(), 0)
	out.Started = started
	out.Facts = session.AppendNew(facts, out.Facts...)
	if rate := bound(req); rate > 0 {
		out.Facts = append(out.Facts, session.PacedBy(req.MaxRateBitsPerSecond))
		if !r.UDP {
			out.Effective["pacing_bits_per_second"] = strconv.FormatFloat(rate, 'f', -1, 64)
		}
	}
	return out, nil
}

// bound is the rate of each stream, in bit/s, where this end bounds that of a test which asks
// for none; else 0. Both ends of iperf3 keep to the rate that its client names.
func bound(req session.Request) float64 {
	if req.MaxRateBitsPerSecond == 0 || req.Spec.RateBitsPerSecond > 0 || req.Spec.PacingBitsPerSecond > 0 {
		return 0
	}
	return req.MaxRateBitsPerSecond / float64(kind.Connections(req.Spec))
}

// request translates a spec, and says where that is not exact.
func request(req session.Request) (iperf3.Request, []string) {
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
	width := session.MinBinWidth * max(time.Duration((seconds+omit)*1e9+session.MaxBins*float64(session.MinBinWidth)-1)/(session.MaxBins*session.MinBinWidth), 1)
	return iperf3.Request{
		Target: req.Target, Source: req.Source, SourcePort: s.SourcePort, Device: s.Device,
		UDP: s.Kind == measurement.UDP, Direction: s.Direction, Streams: s.Flows,
		Seconds: int(seconds), Omit: int(omit),
		Congestion: s.CongestionControl, MSS: s.MSSBytes, Window: int(window), TOS: s.DSCP << 2,
		FQRate: s.PacingBitsPerSecond, Rate: max(s.RateBitsPerSecond/float64(max(s.Flows, 1)), bound(req)), PacketBytes: s.PacketBytes,
		Bounded: bound(req) > 0, BinWidth: width,
	}, facts
}

// wrap gives an error its reason.
func wrap(op string, err error) error {
	var remote *iperf3.RemoteError
	var stream *iperf3.StreamError
	switch {
	case errors.Is(err, iperf3.ErrBusy):
		return &session.Error{Op: op, Reason: session.Limit, Err: err}
	case errors.Is(err, iperf3.ErrOneWay):
		return &session.Error{Op: op, Reason: session.Unsupported, Err: iperf3.ErrOneWay}
	case errors.As(err, &remote) && remote.Unauthorized():
		return &session.Error{Op: op, Reason: session.Unauthorized, Err: err}
	case errors.As(err, &remote) && remote.Limit():
		return &session.Error{Op: op, Reason: session.Limit, Err: err}
	case errors.As(err, &remote), errors.Is(err, iperf3.ErrUnanswered):
		return &session.Error{Op: op, Reason: session.Failed, Err: err}
	case errors.Is(err, iperf3.ErrMalformed):
		return &session.Error{Op: op, Reason: session.Protocol, Err: err}
	case errors.As(err, &stream):
		return session.Further(op, err)
	}
	return session.Wrap(op, err)
}

// outcome turns what both ends counted into metrics.
func outcome(spec measurement.Spec, r iperf3.Request, result iperf3.Result) measurement.Outcome {
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
	there, back := goodput(result, false), goodput(result, true)
	out.Metrics["goodput_bits_per_second"] = there + back
	if spec.Direction == measurement.Both {
		out.Metrics["forward_goodput_bits_per_second"], out.Metrics["reverse_goodput_bits_per_second"] = there, back
	}
	if spec.Kind == measurement.UDP {
		addPackets(out.Metrics, result)
	} else {
		addTCP(out.Metrics, r, result)
	}
	addSettings(&out, spec, result)
	out.Facts = append(out.Facts, fmt.Sprintf(
		"the iperf3 server's process used %.0f %% of one CPU by its own account; what its host spent besides is not known", result.ServerCPUPercent))
	return out
}

// goodput sums the rates of the streams of one direction, each over its
// receiver's own time.
func goodput(result iperf3.Result, reverse bool) float64 {
	var sum float64
	for _, s := range result.Streams {
		if s.Reverse == reverse && s.ReceivedSeconds > 0 {
			sum += float64(s.Received) * 8 / s.ReceivedSeconds
		}
	}
	return sum
}

func addPackets(m measurement.Metrics, result iperf3.Result) {
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
		m["loss_fraction"] = sampling.ClampFraction(lost / packets)
		if known {
			m["reordered_fraction"] = sampling.ClampFraction(disorder / packets)
		}
	}
}

// addTCP takes what the sending sockets of this end saw in the measured time; of the
// server's it knows the retransmits.
func addTCP(m measurement.Metrics, r iperf3.Request, result iperf3.Result) {
	from := float64(r.Omit)
	to := from + result.Took.Seconds()
	var sums tcpinfo.Sums
	var retransmits int64
	known := true
	for _, s := range result.Streams {
		known = known && s.Retransmits >= 0
		retransmits += s.Retransmits
		sums.Add(measurement.Flow{Final: s.Final, Info: s.Info}, from, to)
	}
	sums.Fill(m)
	delete(m, "retransmitted_segments") // those of this end, which may be a part
	if known {
		m["retransmitted_segments"] = float64(retransmits)
	}
}

func addSettings(out *measurement.Outcome, spec measurement.Spec, result iperf3.Result) {
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
