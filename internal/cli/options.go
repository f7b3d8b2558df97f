package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
)

// option is a flag of `hopbench test` that shapes tests: which kinds take it,
// and how it gets into a spec.
type option struct {
	flag  string
	kinds []measurement.Kind
	// shared options say nothing about the kind of test that is meant: the
	// profile takes them, too.
	shared bool
	apply  func(*testFlags, *measurement.Spec)
}

// options lists them in the order in which they are applied.
func options() []option {
	const (
		tcp, udp, pps, rr = measurement.TCP, measurement.UDP, measurement.PPS, measurement.RR
		crr, load, mtu    = measurement.CRR, measurement.Load, measurement.MTU
		ftp               = measurement.FTP
		ping, tracing     = measurement.Ping, measurement.Trace
	)
	of := func(kinds ...measurement.Kind) []measurement.Kind { return kinds }
	return []option{
		{"flows", of(tcp, udp, pps, crr, load, ftp), false, func(f *testFlags, s *measurement.Spec) { s.Flows = f.flows }},
		{"reverse", of(tcp, udp, pps, load), false, func(f *testFlags, s *measurement.Spec) { s.Direction = measurement.Receive }},
		{"upload", of(ftp), false, func(_ *testFlags, s *measurement.Spec) { s.Direction = measurement.Send }},
		{"file", of(ftp), false, func(f *testFlags, s *measurement.Spec) { s.FileBytes = int64(f.file) }},
		{"ftp-path", of(ftp), false, func(f *testFlags, s *measurement.Spec) { s.FilePath = f.ftpPath }},
		{"ftp-crc32", of(ftp), false, func(f *testFlags, s *measurement.Spec) { s.FileCRC32 = strings.ToLower(f.ftpCRC32) }},
		{"ftp-user", of(ftp), false, nothing},
		{"ftp-password-file", of(ftp), false, nothing},
		{"ftp-server", of(ftp), false, nothing},
		{"bidir", of(tcp, load), false, func(f *testFlags, s *measurement.Spec) { s.Direction = measurement.Both }},
		{"duration", of(tcp, udp, pps, rr, crr, load), true, func(f *testFlags, s *measurement.Spec) { s.Duration = f.duration.seconds() }},
		{"omit", of(tcp, udp, pps, rr, crr, load), false, func(f *testFlags, s *measurement.Spec) { s.MaxWarmup = f.omit.seconds() }},
		{"window", of(tcp, load), false, func(f *testFlags, s *measurement.Spec) { s.WindowBytes = int64(f.window) }},
		{"mss", of(tcp, load), false, func(f *testFlags, s *measurement.Spec) { s.MSSBytes = f.mss }},
		{"congestion", of(tcp, load), false, func(f *testFlags, s *measurement.Spec) { s.CongestionControl = f.congestion }},
		{"zerocopy", of(tcp, udp, load), false, func(f *testFlags, s *measurement.Spec) { s.SendMethod = measurement.SendZerocopy }},
		{"copy", of(tcp, udp, load), false, func(f *testFlags, s *measurement.Spec) {
			s.CopyPayload, s.SendMethod = true, measurement.SendCopy
		}},
		{"mptcp", of(tcp, load), false, func(f *testFlags, s *measurement.Spec) { s.MPTCP = true }},
		{"iperf3", of(tcp, udp), false, func(f *testFlags, s *measurement.Spec) { s.Tool = measurement.IPerf3 }},
		{"dscp", of(tcp, udp, pps, rr, crr, load, ftp, mtu), true, func(f *testFlags, s *measurement.Spec) { s.DSCP = int(f.dscp) }},
		{"tos", of(tcp, udp, pps, rr, crr, load, ftp, mtu), true, func(f *testFlags, s *measurement.Spec) { s.DSCP = int(f.dscp) }},
		{"device", of(tcp, udp, pps, rr, crr, load, ftp, mtu), true, func(f *testFlags, s *measurement.Spec) { s.Device = f.device }},
		{"cport", of(tcp, udp, pps, rr, crr, load), false, func(f *testFlags, s *measurement.Spec) { s.SourcePort = int(f.cport) }},
		{"length", of(udp, pps, rr, crr, ping), false, applyLength},
		{"gso", of(udp), false, func(f *testFlags, s *measurement.Spec) { s.GSO = measurement.Switch(f.gso) }},
		{"gro", of(udp), false, func(f *testFlags, s *measurement.Spec) { s.GRO = measurement.Switch(f.gro) }},
		{"loss-bound", of(udp, pps), false, func(f *testFlags, s *measurement.Spec) { s.LossBound = float64(f.lossBound) }},
		{"protocol", of(rr, load, tracing), false, func(f *testFlags, s *measurement.Spec) { s.Protocol = measurement.Protocol(f.protocol) }},
		{"request", of(rr, crr, load), false, func(f *testFlags, s *measurement.Spec) { s.RequestBytes = int(f.request) }},
		{"response", of(rr, crr, load), false, func(f *testFlags, s *measurement.Spec) { s.ResponseBytes = int(f.response) }},
		{"requests-per-second", of(rr, load), false, func(f *testFlags, s *measurement.Spec) { s.RequestsPerSecond = f.requestsPerSecond }},
		{"in-flight", of(rr), false, func(f *testFlags, s *measurement.Spec) { s.InFlight = f.inFlight }},
		{"spin", of(rr), false, func(f *testFlags, s *measurement.Spec) { s.Spin = true }},
		{"colocate", of(rr, crr), false, func(f *testFlags, s *measurement.Spec) { s.Colocate = true }},
		{"interval", of(tcp, udp, pps, load, ftp, ping), false, func(f *testFlags, s *measurement.Spec) {
			if s.Kind == ping {
				s.Interval = f.interval.seconds()
			} // for the others it is the summary's
		}},
		{"count", of(ping), false, func(f *testFlags, s *measurement.Spec) { s.Count = f.count }},
		{"timeout", of(rr, mtu, ping, tracing), false, func(f *testFlags, s *measurement.Spec) { s.Timeout = f.timeout.seconds() }},
		{"max-hops", of(tracing), false, func(f *testFlags, s *measurement.Spec) { s.MaxHops = f.maxHops }},
		{"rate", of(tcp, udp, pps, load), true, applyRate},
	}
}

// nothing is for flags that say whom to ask, which is no part of a spec.
func nothing(*testFlags, *measurement.Spec) {}

func applyLength(f *testFlags, s *measurement.Spec) {
	switch s.Kind {
	case measurement.RR, measurement.CRR:
		s.RequestBytes, s.ResponseBytes = int(f.length), int(f.length)
	case measurement.Ping:
		s.PayloadBytes = int(f.length)
	default:
		s.PacketBytes = int(f.length)
	}
}

// applyRate comes after the number of flows: the rate is that of all together,
// and a TCP flow is paced by itself.
func applyRate(f *testFlags, s *measurement.Spec) {
	switch s.Kind {
	case measurement.TCP, measurement.Load:
		s.PacingBitsPerSecond = float64(f.rate) / float64(max(s.Defaults().Flows, 1))
	default:
		s.RateBitsPerSecond = float64(f.rate)
	}
}

// impliedKinds are the kinds that flags alone can choose, in the order in which
// they are tried: a flag that tcp takes means tcp, as for iperf3.
func impliedKinds() []measurement.Kind {
	return []measurement.Kind{measurement.TCP, measurement.UDP, measurement.RR, measurement.Ping, measurement.Trace, measurement.FTP}
}

// chooseKinds says which kinds of test the flags that were given ask for; none
// is the whole profile.
func (f *testFlags) chooseKinds(given func(flag string) bool) ([]measurement.Kind, error) {
	var used []option
	for _, o := range options() {
		if given(o.flag) {
			used = append(used, o)
		}
	}
	kinds, err := f.namedKinds()
	if err != nil {
		return nil, err
	}
	if len(kinds) > 0 {
		return kinds, takenBy(used, kinds)
	}
	telling := slices.DeleteFunc(slices.Clone(used), func(o option) bool { return o.shared })
	if len(telling) == 0 {
		return nil, nil
	}
	if len(telling) == 1 && telling[0].flag == "length" {
		return nil, fmt.Errorf("--length alone does not say what to measure; add -u for datagrams, or --only %s", names(telling[0].kinds))
	}
	for _, k := range impliedKinds() {
		if takenBy(used, []measurement.Kind{k}) == nil {
			return []measurement.Kind{k}, nil
		}
	}
	var each []string
	for _, o := range telling {
		each = append(each, fmt.Sprintf("--%s (%s)", o.flag, names(o.kinds)))
	}
	return nil, fmt.Errorf("no one kind of test takes %s; choose with --only", strings.Join(each, " and "))
}

// namedKinds are those of --only or -u.
func (f *testFlags) namedKinds() ([]measurement.Kind, error) {
	if f.udp {
		if len(f.only) > 0 {
			return nil, fmt.Errorf("-u means --only udp; leave one of them out, and for latency over UDP say --only rr --protocol udp")
		}
		return []measurement.Kind{measurement.UDP}, nil
	}
	var kinds []measurement.Kind
	for _, name := range f.only {
		k := measurement.Kind(name)
		if !slices.Contains(measurement.Kinds(), k) {
			return nil, fmt.Errorf("--only %q is not a kind of test; they are %s", name, names(measurement.Kinds()))
		}
		if !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
	}
	return kinds, nil
}

// takenBy says what is wrong with a flag that none of the kinds takes.
func takenBy(used []option, kinds []measurement.Kind) error {
	for _, o := range used {
		if !slices.ContainsFunc(kinds, func(k measurement.Kind) bool { return slices.Contains(o.kinds, k) }) {
			return fmt.Errorf("--%s has no meaning for %s; it is for %s", o.flag, names(kinds), names(o.kinds))
		}
	}
	return nil
}

// specOf is the spec of one kind with the flags that were given.
func (f *testFlags) specOf(kind measurement.Kind, given func(flag string) bool) measurement.Spec {
	spec := measurement.Spec{Kind: kind}
	for _, o := range options() {
		if given(o.flag) && slices.Contains(o.kinds, kind) {
			o.apply(f, &spec)
		}
	}
	return spec.Defaults()
}

func names(kinds []measurement.Kind) string {
	var b strings.Builder
	for i, k := range kinds {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(k))
	}
	return b.String()
}
