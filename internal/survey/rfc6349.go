package survey

import (
	"math"
	"slices"
	"strconv"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// ethernetOverheadBytes is what a packet takes on an Ethernet link in
// addition to itself (RFC 6349, section 4.1.1): header 14, CRC 4, gap between frames 12,
// preamble 7, start of frame 1.
const ethernetOverheadBytes = 38

// maximumGoodput is the maximum achievable TCP throughput in bits per second of
// a link (RFC 6349, section 4.1.1): so many frames of a packet and the link's
// own overhead a second, and so many bytes of payload in each. Unlike the RFC's
// examples, it does not round the frames to whole ones.
func maximumGoodput(linkBitsPerSecond float64, packetBytes, payloadBytes, overheadBytes int) float64 {
	return linkBitsPerSecond * float64(payloadBytes) / float64(packetBytes+overheadBytes)
}

// transferTime is how long a block of data takes at a rate (RFC 6349, section
// 4.1.2).
func transferTime(blockBytes, bitsPerSecond float64) measurement.Seconds {
	return measurement.Seconds(blockBytes * 8 / bitsPerSecond)
}

// transferTimeRatio is the actual transfer time over the ideal one (RFC 6349,
// section 4.1): 1 is ideal, 1.5 took half as long again.
func transferTimeRatio(actual, ideal measurement.Seconds) float64 {
	return float64(actual / ideal)
}

// tcpEfficiency is the fraction of the bytes sent that were not sent again (RFC
// 6349, section 4.2). The transmitted bytes include the retransmitted ones.
func tcpEfficiency(transmittedBytes, retransmittedBytes float64) float64 {
	return (transmittedBytes - retransmittedBytes) / transmittedBytes
}

// relativeDelay is the buffer delay: the increase of the mean round-trip time during a
// transfer over that of the idle path, as a fraction of the latter (RFC 6349, section 4.3).
func relativeDelay(mean, baseline measurement.Seconds) float64 {
	return float64((mean - baseline) / baseline)
}

// blockBytes is the block of RFC 6349's table of ideal transfer times (section
// 4.1.2). The ratio of two times does not depend on it.
const blockBytes = 100e6

// Ratings rates every TCP test that counts by the three metrics of RFC 6349.
// The ideal is the bottleneck bandwidth that the user gave, less the headers, or
// else the largest goodput of the same direction. A test of both directions has
// no ideal of its own and is left out.
func Ratings(rateBitsPerSecond float64, done []Step) []result.RFC6349 {
	var out []result.RFC6349
	for _, s := range done {
		goodput := s.Trial.Metrics[goodputName]
		if !s.counts() || s.Test.Explains != "" || s.Test.Spec.Kind != measurement.TCP || s.Test.Spec.Direction == measurement.Both || goodput <= 0 {
			continue
		}
		r := result.RFC6349{Test: s.Test.Name, Goodput: goodput}
		compared := true
		if rateBitsPerSecond > 0 {
			packet, payload := packetOf(s, done)
			r.Ideal, r.IdealSource = maximumGoodput(rateBitsPerSecond, packet, payload, ethernetOverheadBytes), result.IdealGiven
		} else {
			r.Ideal, compared = largestGoodput(s.Test.Spec.Direction, done)
			r.IdealSource = result.IdealMeasured
		}
		if compared {
			r.TransferTimeRatio = finite(transferTimeRatio(transferTime(blockBytes, goodput), transferTime(blockBytes, r.Ideal)))
		}
		r.TCPEfficiency = efficiency(s.Trial.Outcome)
		r.BufferDelay = bufferDelay(s.Trial.Outcome, idleRTT(done))
		out = append(out, r)
	}
	return out
}

// largestGoodput of the TCP tests of a direction that are rated; several says that there
// is more than one.
func largestGoodput(d measurement.Direction, done []Step) (best float64, several bool) {
	n := 0
	for _, s := range done {
		if s.counts() && s.Test.Explains == "" && s.Test.Spec.Kind == measurement.TCP && s.Test.Spec.Direction == d {
			best = max(best, s.Trial.Metrics[goodputName])
			n++
		}
	}
	return best, n > 1
}

// packetOf is the size of the test's full packets and of the payload in each:
// as the kernel reported them, else from the path MTU, else RFC 6349's 1500 and
// 40 bytes of headers. Where either end bounds the segments, their packets are smaller
// than the path MTU.
func packetOf(s Step, done []Step) (packet, payload int) {
	const ethernet, headers = 1500, 40
	const timestamps, largestIPHeader = 12, 40
	packet = ethernet
	ipHeader := largestIPHeader
	for _, other := range done {
		if mtu := other.Trial.Metrics["path_mtu_bytes"]; other.counts() && mtu > headers && mtu < math.MaxInt32 {
			packet = int(mtu)
			if n, err := strconv.Atoi(other.Trial.Effective["ip_header_bytes"]); err == nil && n > 0 {
				ipHeader = min(n, largestIPHeader)
			}
		}
	}
	for _, f := range s.Trial.Flows {
		if f.Final != nil && f.Final.MSS > 0 && f.Final.PathMTU > f.Final.MSS && f.Final.PathMTU < math.MaxInt32 {
			// The MSS leaves out the options that every segment carries; it can be
			// smaller than what fits the path.
			sent := int(f.Final.MSS) + timestamps + tcpHeaderBytes + ipHeader
			return min(packet, int(f.Final.PathMTU), sent), min(packet-headers, int(f.Final.MSS))
		}
	}
	return packet, packet - headers
}

func efficiency(o measurement.Outcome) *float64 {
	if v, ok := o.Metrics["tcp_efficiency_fraction"]; ok {
		return finite(v)
	}
	var sent, again float64
	for _, f := range o.Flows {
		if f.Final == nil {
			return nil
		}
		sent += float64(f.SentBytes)
		again += float64(f.Final.Retransmits) * float64(f.Final.MSS)
	}
	return finite(tcpEfficiency(sent+again, again))
}

// bufferDelay is over the round trip of the idle path. Without one, it is over the smallest
// of the transfer itself, which is too short where both ends are on one host.
func bufferDelay(o measurement.Outcome, idle measurement.Seconds) *float64 {
	if mean, ok := o.Metrics["tcp_rtt_mean_seconds"]; ok && idle > 0 {
		return finite(max(relativeDelay(measurement.Seconds(mean), idle), 0))
	}
	if v, ok := o.Metrics["buffer_delay_fraction"]; ok {
		return finite(v)
	}
	return nil
}

// idleRTT is the median of the first latency test that counts, 0 if none does. Ends that
// share a CPU answer sooner than any path lets them.
func idleRTT(done []Step) measurement.Seconds {
	i := slices.IndexFunc(done, func(s Step) bool {
		return s.counts() && (s.Test.Spec.Kind == measurement.RR || s.Test.Spec.Kind == measurement.Ping) &&
			s.Trial.Effective["placement"] != measurement.PlacementSame && s.Trial.Metrics["rtt_p50_seconds"] > 0
	})
	if i < 0 {
		return 0
	}
	return measurement.Seconds(done[i].Trial.Metrics["rtt_p50_seconds"])
}

func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
