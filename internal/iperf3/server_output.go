package iperf3

import (
	"fmt"
	"strings"
	"time"
)

// maxCells bounds the lines of a server's output about single intervals.
const maxCells = 4096

// text is what a client that asks for the server's output gets to see: this
// server's view, in the form that users of iperf3 know.
func (t *session) text(ours results, far []streamResult) string {
	var b strings.Builder
	rule := strings.Repeat("-", 59) + "\n"
	fmt.Fprintf(&b, "%shopbench serves an iperf3 client on %s\n%s", rule, t.local, rule)
	fmt.Fprintf(&b, "Accepted connection from %s, port %d\n", t.client.Addr().Unmap(), t.client.Port())
	for i, s := range t.streams {
		fmt.Fprintf(&b, "[%3d] %s %s\n", streamID(i), s.role(), t.protocol())
	}
	fmt.Fprintf(&b, "[ ID] Role Interval           Transfer         Bitrate\n")
	t.intervals(&b)
	b.WriteString("- - - - - - - - - - - - - - - - - - - - - - - - -\n")
	sums := map[bool]float64{}
	longest := map[bool]float64{}
	count := map[bool]int{}
	for i, r := range ours.Streams {
		s := t.streams[i]
		line(&b, streamID(i), s.role(), 0, r.seconds(), r.Bytes)
		switch {
		case t.udp && !s.sender:
			fmt.Fprintf(&b, "  jitter %.3f ms  lost %.0f/%.0f", 1000*r.Jitter, r.Lost-valueOf(r.OmittedLost), r.Packets-valueOf(r.OmittedPackets))
		case !t.udp && s.sender:
			fmt.Fprintf(&b, "  retransmits %.0f", r.Retransmits)
		}
		fmt.Fprintf(&b, "  (the client counted %.0f bytes)\n", far[i].Bytes)
		sums[s.sender] += r.Bytes
		longest[s.sender] = max(longest[s.sender], r.seconds())
		count[s.sender]++
	}
	for _, sender := range []bool{false, true} {
		if count[sender] > 1 {
			line(&b, 0, roleOf(sender), 0, longest[sender], sums[sender])
			b.WriteByte('\n')
		}
	}
	fmt.Fprintf(&b, "CPU of the server's process: %.1f%% (%.1f%% user, %.1f%% system) of one CPU, all its tests together\n",
		ours.CPUTotal, ours.CPUUser, ours.CPUSystem)
	if t.congestion != "" {
		fmt.Fprintf(&b, "TCP congestion control: %s\n", t.congestion)
	}
	for _, f := range t.facts {
		fmt.Fprintf(&b, "note: %s\n", f)
	}
	return b.String()
}

func (t *session) protocol() string {
	if t.udp {
		return "UDP"
	}
	return "TCP"
}

func (s *stream) role() string { return roleOf(s.sender) }

func roleOf(sender bool) string {
	if sender {
		return "TX-S"
	}
	return "RX-S"
}

// intervals writes what moved in each tick, the omitted start included.
func (t *session) intervals(b *strings.Builder) {
	before := row{bytes: make([]int64, len(t.streams))}
	for _, r := range t.rows {
		for i, s := range t.streams {
			line(b, streamID(i), s.role(), before.at.Seconds(), r.at.Seconds(), float64(r.bytes[i]-before.bytes[i]))
			if r.at <= t.omit+100*time.Millisecond {
				b.WriteString("  (omitted)")
			}
			b.WriteByte('\n')
		}
		before = r
	}
}

// line writes bytes over an interval of time; a sum has the number 0.
func line(b *strings.Builder, id int, role string, from, to, bytes float64) {
	name := fmt.Sprintf("%3d", id)
	if id == 0 {
		name = "SUM"
	}
	rate := 0.0
	if to > from {
		rate = bytes * 8 / (to - from)
	}
	fmt.Fprintf(b, "[%s] %s %6.2f-%-6.2f sec %10s %14s", name, role, from, to, scaled(bytes, 1024, "Bytes"), scaled(rate, 1000, "bits/sec"))
}

// scaled writes a number as iperf3 does: multiples of 1024 for bytes, of 1000
// for rates.
func scaled(v, base float64, unit string) string {
	prefixes := []string{"", "K", "M", "G", "T"}
	i := 0
	for v >= base && i < len(prefixes)-1 {
		v, i = v/base, i+1
	}
	return fmt.Sprintf("%.2f %s%s", v, prefixes[i], unit)
}
