package tcpinfo

import (
	"math"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/sampling"
)

// Sums adds up the TCP_INFO of the sending sockets of a test.
type Sums struct {
	flows, samples                float64
	rtt, cwnd                     float64
	receiveLimited, bufferLimited float64
	segments                      int64   // retransmitted
	sent, again                   float64 // bytes, over the whole test
	minRTT                        float64 // 0 unknown
}

// Add counts what one flow saw in from..to, in seconds since START.
func (s *Sums) Add(f measurement.Flow, from, to float64) {
	if f.Final == nil {
		return
	}
	s.flows++
	s.segments += f.Final.Retransmits
	s.sent += float64(f.Final.SentBytes)
	s.again += float64(f.Final.RetransmittedBytes)
	if least := float64(f.Final.MinRTT); least > 0 && (s.minRTT == 0 || least < s.minRTT) {
		s.minRTT = least
	}
	for _, i := range f.Info {
		if at := float64(i.At); at >= from && at <= to {
			s.rtt, s.cwnd, s.samples = s.rtt+float64(i.RTT), s.cwnd+float64(i.CongestionWindow), s.samples+1
		}
	}
	all := withEnds(f)
	s.receiveLimited += share(all, from, to, func(i measurement.TCPInfo) float64 { return float64(i.ReceiveWindowTime) })
	s.bufferLimited += share(all, from, to, func(i measurement.TCPInfo) float64 { return float64(i.SendBufferTime) })
}

// withEnds is a flow's series with what is known of its ends, which the few samples that are
// kept of each of many flows leave out: at START every counter is zero, and Final is the last.
func withEnds(f measurement.Flow) []measurement.TCPInfo {
	all := make([]measurement.TCPInfo, 0, len(f.Info)+2)
	if len(f.Info) == 0 || f.Info[0].At > 0 {
		all = append(all, measurement.TCPInfo{})
	}
	all = append(all, f.Info...)
	if f.Final.At > all[len(all)-1].At {
		all = append(all, *f.Final)
	}
	return all
}

// Fill sets the metrics of the Catalogue that follow.
func (s *Sums) Fill(m measurement.Metrics) {
	if s.flows == 0 {
		return
	}
	m["retransmitted_segments"] = float64(s.segments)
	m["receive_window_limited_fraction"] = sampling.ClampFraction(s.receiveLimited / s.flows)
	m["send_buffer_limited_fraction"] = sampling.ClampFraction(s.bufferLimited / s.flows)
	if s.sent > 0 {
		// RFC 6349, section 4.2: the part of the transmitted bytes that were
		// not retransmitted ones.
		m["tcp_efficiency_fraction"] = sampling.ClampFraction((s.sent - s.again) / s.sent)
	}
	if s.samples == 0 {
		return
	}
	m["tcp_rtt_mean_seconds"] = s.rtt / s.samples
	m["congestion_window_bytes"] = s.cwnd / s.samples
	if s.minRTT > 0 {
		// RFC 6349, section 4.3, with the least that any of the sockets saw
		// for the baseline.
		m["buffer_delay_fraction"] = math.Max(s.rtt/s.samples/s.minRTT-1, 0)
	}
}

// share is the part of the time from..to by which a cumulative time of the
// kernel's grew.
func share(series []measurement.TCPInfo, from, to float64, value func(measurement.TCPInfo) float64) float64 {
	at, values := make([]float64, len(series)), make([]float64, len(series))
	for i, s := range series {
		at[i], values[i] = float64(s.At), value(s)
	}
	return (sampling.Interpolate(at, values, to) - sampling.Interpolate(at, values, from)) / (to - from)
}
