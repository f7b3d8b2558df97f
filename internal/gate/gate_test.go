package gate_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/gate"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/testutil"
	"github.com/hopbench/hopbench/internal/words/wordstest"
)

// goodTCP is an outcome that passes every gate for a 1-second test.
func goodTCP() measurement.Outcome {
	return measurement.Outcome{
		Metrics: measurement.Metrics{"goodput_bits_per_second": 0.8e9},
		Warmup:  0.2, WarmupSteady: true,
		Throughput: goodBins(),
		Flows:      []measurement.Flow{{ReceivedBytes: 50e6}, {ReceivedBytes: 50e6}},
		Source:     measurement.End{CPUBusy: 0.5}, Destination: measurement.End{CPUBusy: 0.6},
	}
}

func tcpSpec() measurement.Spec {
	return measurement.Spec{Kind: measurement.TCP, Flows: 2, Duration: 1, MaxWarmup: 0.3}.Defaults()
}

// Every finding has a sentence, made of what the gates give.
func TestGates(t *testing.T) {
	// A result of format 1 has texts; the runner finds what died between trials.
	codes := slices.DeleteFunc(measurement.GateCodes(), func(c measurement.FindingCode) bool {
		return c == measurement.FoundText || c == measurement.FoundHopDiedBefore
	})
	found := slices.Concat(testEveryKind(t), testKinds(t), testInstrument(t))
	wordstest.Given(t, codes, found)
	testDocumented(t, slices.Concat(found, judgedFingerprints()))
}

// judgedFingerprints are the findings on paths, besides tests that failed and did not.
func judgedFingerprints() (found []measurement.Finding) {
	for _, code := range measurement.PathCodes() {
		for _, err := range []error{nil, syscall.ECONNRESET, syscall.ENOMEM} {
			for _, ttl := range []int{0, 62} {
				f := measurement.Fingerprint{Why: &measurement.Finding{Code: code, TTL: ttl}}
				f.Learned = code == measurement.FoundTTLChanged || code == measurement.FoundMTUChanged
				for _, finding := range gate.Judge(measurement.Spec{Kind: measurement.Trace}, measurement.Outcome{}, f, gate.Limits{}, err).Findings {
					if finding.Name == "fingerprint" {
						found = append(found, finding)
					}
				}
			}
		}
	}
	return found
}

// testDocumented holds the table of gates in docs/methodology.md to what they find.
func testDocumented(t *testing.T, found []measurement.Finding) {
	says := map[string]map[string]bool{} // by gate and code
	for _, f := range found {
		row := "| `" + f.Name + "` | `" + string(f.Code) + "` | "
		if says[row] == nil {
			says[row] = map[string]bool{}
		}
		switch {
		case f.PathFailure:
			says[row]["broken"] = true
		case f.Fatal:
			says[row]["missing"] = true
		default:
			says[row]["warning"] = true
		}
	}
	text, err := os.ReadFile("../../docs/methodology.md")
	testutil.OK(t, err)
	documented := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		documented[strings.TrimSpace(line)] = true
	}
	_, table, _ := strings.Cut(string(text), "| gate | finding | the trial |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	if rows := strings.Count(table, "\n") + 1; rows != len(says) {
		t.Errorf("docs/methodology.md has %d gates with their findings, want %d", rows, len(says))
	}
	for row, kinds := range says {
		if row += strings.Join(slices.Sorted(maps.Keys(kinds)), ", ") + " |"; !documented[row] {
			t.Errorf("docs/methodology.md lacks the line\n%s", row)
		}
	}
}

func testEveryKind(t *testing.T) (found []measurement.Finding) {
	took := measurement.Fingerprint{Matches: true}
	latency := func(d *measurement.Distribution) measurement.Outcome { return measurement.Outcome{Latency: d} }
	rr := measurement.Spec{Kind: measurement.RR}.Defaults()
	for _, test := range []struct {
		name        string
		spec        measurement.Spec
		outcome     measurement.Outcome
		change      func(*measurement.Outcome)
		fingerprint measurement.Fingerprint
		limits      gate.Limits
		err         error
		fatal, warn string // names of the findings expected, space separated
	}{
		{name: "good", spec: tcpSpec(), fingerprint: took},
		{name: "test failed, nobody knows why", spec: tcpSpec(), fingerprint: took, err: errors.New("something burnt"), fatal: "test"},
		{name: "reset", spec: tcpSpec(), fingerprint: took, err: syscall.ECONNRESET, fatal: "test!"},
		{name: "refused", spec: tcpSpec(), fingerprint: took, err: syscall.ECONNREFUSED, fatal: "test!"},
		{name: "a router has no route", spec: tcpSpec(), fingerprint: took, err: syscall.EHOSTUNREACH, fatal: "test!"},
		{name: "silent", spec: tcpSpec(), fingerprint: took, err: session.ErrSilent, fatal: "test!"},
		{name: "took too long", spec: tcpSpec(), fingerprint: took, err: context.DeadlineExceeded, fatal: "test!"},
		{name: "another version", spec: tcpSpec(), fingerprint: took, err: &protocol.VersionError{}, fatal: "test"},
		{name: "no memory", spec: tcpSpec(), fingerprint: took, err: syscall.ENOMEM, fatal: "test"},
		{name: "no port", spec: tcpSpec(), fingerprint: took, err: syscall.EADDRNOTAVAIL, fatal: "test"},
		{name: "limit of the server", spec: tcpSpec(), fingerprint: took, err: &protocol.RemoteError{Reason: "limit"}, fatal: "test"},
		{name: "the server lost a flow", spec: tcpSpec(), fingerprint: took, err: &protocol.RemoteError{Reason: "vanished"}, fatal: "test!"},
		{name: "the agent ended", spec: tcpSpec(), fingerprint: took, err: &session.Error{Reason: session.Local, Err: io.EOF}, fatal: "test"},
		{name: "its hop died", spec: tcpSpec(), fingerprint: took, limits: gate.Limits{Path: "p"}, err: &testbed.Fault{Paths: []string{"p"}, Err: errors.New("hop fw died")}, fatal: "test!"},
		{name: "an end died", spec: tcpSpec(), fingerprint: took, limits: gate.Limits{Path: "p"}, err: &testbed.Fault{Err: errors.New("endpoint died")}, fatal: "test"},
		{name: "all is silent", spec: tcpSpec(), fingerprint: measurement.Fingerprint{Why: &measurement.Finding{Code: measurement.FoundSilentHops}}, err: session.ErrSilent, fatal: "test! fingerprint!"},
		{name: "the trace took too long", spec: tcpSpec(), fingerprint: measurement.Fingerprint{Why: &measurement.Finding{Code: measurement.FoundTraceFailed}}, err: context.DeadlineExceeded, fatal: "test! fingerprint!"},
		{name: "the other path, and reset there", spec: tcpSpec(), fingerprint: measurement.Fingerprint{Why: &measurement.Finding{Code: measurement.FoundOtherHops}}, err: syscall.ECONNRESET, fatal: "test! fingerprint"},
		{name: "silent hops", spec: tcpSpec(), fingerprint: measurement.Fingerprint{Why: &measurement.Finding{Code: measurement.FoundSilentHops}}, fatal: "fingerprint"},
		{
			name: "silent hops of a pair that was not reached", spec: tcpSpec(), limits: gate.Limits{Pairs: 2}, fatal: "fingerprint! pairs!",
			fingerprint: measurement.Fingerprint{Why: &measurement.Finding{Code: measurement.FoundSilentHops, Pair: "c2 to s2"}},
			change: func(o *measurement.Outcome) {
				good := measurement.Pair{Source: "c1", Destination: "s1", Metrics: o.Metrics, Throughput: o.Throughput, RTT: []measurement.PairRTT{{}}}
				o.Pairs = []measurement.Pair{good, {Source: "c2", Destination: "s2", Error: "no answer", Failure: string(session.TimedOut)}}
			},
		},
		{
			name: "silent hops, and no answer to a ping", spec: measurement.Spec{Kind: measurement.Ping}.Defaults(), outcome: measurement.Outcome{Metrics: measurement.Metrics{"loss_fraction": 1}},
			fingerprint: measurement.Fingerprint{Why: &measurement.Finding{Code: measurement.FoundSilentHops}}, fatal: "fingerprint! receiver-confirmed!",
		},
		{name: "silent hops, and the right time to live", spec: tcpSpec(), fingerprint: measurement.Fingerprint{Why: &measurement.Finding{Code: measurement.FoundSilentHops, TTL: 62}}, warn: "fingerprint"},
		{name: "the clock was set", spec: tcpSpec(), fingerprint: took, limits: gate.Limits{ClockStep: -time.Second}, fatal: "clock"},
		{name: "the clock was read a little later", spec: tcpSpec(), fingerprint: took, limits: gate.Limits{ClockStep: 100 * time.Microsecond}},
		{name: "another run", spec: tcpSpec(), fingerprint: took, limits: gate.Limits{OtherRuns: 1}, fatal: "other-run"},
		{name: "another run in a lab", spec: tcpSpec(), fingerprint: took, limits: gate.Limits{OtherRuns: 2, BusyWarns: true}, warn: "other-run"},
		{name: "another client of the server", spec: tcpSpec(), fingerprint: took, fatal: "other-client",
			change: func(o *measurement.Outcome) {
				o.Destination.OtherClients = &measurement.OtherClients{Count: 3, Address: "192.0.2.9", Bytes: 5e9}
			}},
		{name: "another client that is not named, and nothing is compared", spec: tcpSpec(), fingerprint: took, limits: gate.Limits{BusyWarns: true}, warn: "other-client",
			change: func(o *measurement.Outcome) {
				o.Destination.OtherClients = &measurement.OtherClients{Count: 1, Bytes: 20}
			}},
		{name: "more than was sent", spec: tcpSpec(), fingerprint: took, fatal: "conserved",
			change: func(o *measurement.Outcome) { o.Flows[1].SentBytes = 49e6 }},
		{name: "less than was sent", spec: tcpSpec(), fingerprint: took, change: func(o *measurement.Outcome) { o.Flows[1].SentBytes = 60e6 }},
		{name: "other path", spec: tcpSpec(), fingerprint: measurement.Fingerprint{Why: &measurement.Finding{Code: measurement.FoundOtherHops}}, fatal: "fingerprint"},
		{name: "nothing received", spec: tcpSpec(), fingerprint: took, fatal: "receiver-confirmed!",
			change: func(o *measurement.Outcome) { o.Metrics = measurement.Metrics{} }},
		{name: "a flow is missing", spec: tcpSpec(), fingerprint: took, fatal: "flows",
			change: func(o *measurement.Outcome) { o.Flows = o.Flows[:1] }},
		{name: "a handful of socket buffers", spec: tcpSpec(), fingerprint: took, fatal: "enough-flow!",
			change: func(o *measurement.Outcome) { o.Flows[1].ReceivedBytes = 20_000 }},
		{name: "a slow path, and nothing is compared", spec: tcpSpec(), fingerprint: took, limits: gate.Limits{FewWarn: true}, warn: "enough-flow",
			change: func(o *measurement.Outcome) { o.Flows[0].ReceivedBytes, o.Flows[1].ReceivedBytes = 20_000, 10_000 }},
		{name: "a slow flow and one without a byte, and nothing is compared", spec: tcpSpec(), fingerprint: took, limits: gate.Limits{FewWarn: true}, fatal: "enough-flow!",
			change: func(o *measurement.Outcome) { o.Flows[0].ReceivedBytes, o.Flows[1].ReceivedBytes = 20_000, 0 }},
		{name: "both ways bring twice the flows", spec: measurement.Spec{Kind: measurement.TCP, Flows: 1, Direction: measurement.Both, Duration: 1, MaxWarmup: 0.3}.Defaults(), fingerprint: took},
		{name: "half of both ways", spec: measurement.Spec{Kind: measurement.TCP, Flows: 2, Direction: measurement.Both, Duration: 1, MaxWarmup: 0.3}.Defaults(), fingerprint: took, fatal: "flows"},
		{name: "no datagram arrived", spec: measurement.Spec{Kind: measurement.UDP}, fingerprint: took, fatal: "receiver-confirmed!",
			outcome: measurement.Outcome{Metrics: measurement.Metrics{"goodput_bits_per_second": 0}}},
		{name: "no small packet arrived", spec: measurement.Spec{Kind: measurement.PPS}, fingerprint: took, fatal: "receiver-confirmed!"},
		{name: "few answers for a person", spec: rr, fingerprint: took, warn: "enough-samples", limits: gate.Limits{FewWarn: true},
			outcome: latency(&measurement.Distribution{Samples: 3, Min: 1, Max: 2})},
		{name: "cut short", spec: tcpSpec(), fingerprint: took, fatal: "duration",
			change: func(o *measurement.Outcome) { o.Throughput.Bytes = o.Throughput.Bytes[:100] }},
		{name: "more than the cap", spec: tcpSpec(), fingerprint: took, warn: "possible",
			limits: gate.Limits{Limits: testbed.Limits{SourceEgressBitsPerSecond: 0.7e9}}},
		{name: "the cap of the end that only receives does not bind", spec: tcpSpec(), fingerprint: took,
			limits: gate.Limits{Limits: testbed.Limits{DestinationEgressBitsPerSecond: 0.1e9}}},
		{name: "more than a hop carries", spec: tcpSpec(), fingerprint: took, warn: "possible",
			limits: gate.Limits{Limits: testbed.Limits{PathBitsPerSecond: 0.5e9}}},
		{name: "busy host", spec: tcpSpec(), fingerprint: took, fatal: "cpu",
			change: func(o *measurement.Outcome) { o.Source.CPUBusy = 0.99 }},
		{name: "busy lab", spec: tcpSpec(), fingerprint: took, warn: "cpu", limits: gate.Limits{BusyWarns: true},
			change: func(o *measurement.Outcome) { o.Source.CPUBusy = 0.99 }},
		{name: "round trips", spec: rr, fingerprint: took,
			outcome: latency(&measurement.Distribution{Samples: 100, Min: 1e-4, Max: 1e-3})},
		{name: "no answers", spec: rr, fingerprint: took, outcome: latency(nil), fatal: "receiver-confirmed!"},
		{name: "few answers", spec: rr, fingerprint: took, fatal: "enough-samples!",
			outcome: latency(&measurement.Distribution{Samples: 3, Min: 1e-4, Max: 1e-3})},
		{name: "few answers while all CPUs were full", spec: rr, fingerprint: took, limits: gate.Limits{BusyWarns: true}, fatal: "enough-samples", warn: "cpu",
			outcome: measurement.Outcome{Latency: &measurement.Distribution{Samples: 3, Min: 1e-4, Max: 1e-3}, Source: measurement.End{CPUBusy: 1}}},
		{name: "few answers in a moment, the others lost", spec: rr, fingerprint: took, fatal: "enough-samples!",
			outcome: measurement.Outcome{Latency: &measurement.Distribution{Samples: 3, Unanswered: 2, Min: 1e-4, Max: 1e-3}, Metrics: measurement.Metrics{"transactions_per_second": 1000, "loss_fraction": 0.41}}},
		{name: "few answers in a moment", spec: rr, fingerprint: took, fatal: "enough-samples",
			outcome: measurement.Outcome{Latency: &measurement.Distribution{Samples: 3, Min: 1e-4, Max: 1e-3}, Metrics: measurement.Metrics{"transactions_per_second": 1000}}},
		{name: "few answers all the time", spec: rr, fingerprint: took, fatal: "enough-samples!",
			outcome: measurement.Outcome{Latency: &measurement.Distribution{Samples: 3, Min: 0.3, Max: 0.4}, Metrics: measurement.Metrics{"transactions_per_second": 3}}},
		{name: "nothing received while all CPUs were full", spec: tcpSpec(), fingerprint: took, limits: gate.Limits{BusyWarns: true}, fatal: "receiver-confirmed", warn: "cpu",
			change: func(o *measurement.Outcome) { o.Metrics, o.Source.CPUBusy = measurement.Metrics{}, 1 }},
		{name: "nothing received of what was sent again, while all CPUs were full", spec: tcpSpec(), fingerprint: took, limits: gate.Limits{BusyWarns: true}, fatal: "receiver-confirmed!", warn: "cpu",
			change: func(o *measurement.Outcome) {
				o.Metrics, o.Source.CPUBusy = measurement.Metrics{}, 1
				o.Flows = []measurement.Flow{{Final: &measurement.TCPInfo{RetransmissionTimers: 3}}, {}}
			}},
		{name: "nothing received on a flow that was sent again, while all CPUs were full", spec: tcpSpec(), fingerprint: took, limits: gate.Limits{BusyWarns: true}, fatal: "enough-flow!", warn: "cpu",
			change: func(o *measurement.Outcome) {
				o.Source.CPUBusy = 1
				o.Flows[1] = measurement.Flow{Final: &measurement.TCPInfo{RetransmissionTimers: 2}}
			}},
		{name: "a handful of socket buffers while all CPUs were full", spec: tcpSpec(), fingerprint: took, limits: gate.Limits{BusyWarns: true}, fatal: "enough-flow", warn: "cpu",
			change: func(o *measurement.Outcome) { o.Flows[1].ReceivedBytes, o.Destination.CPUBusy = 20_000, 1 }},
		{name: "time ran backwards", spec: rr, fingerprint: took, fatal: "clock",
			outcome: latency(&measurement.Distribution{Samples: 100, Min: -1e-4, Max: 1e-3})},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := test.outcome
			if test.spec.Kind == measurement.TCP {
				o = goodTCP()
			}
			if test.change != nil {
				test.change(&o)
			}
			gate := gate.Judge(test.spec, o, test.fingerprint, test.limits, test.err)
			fatal, warn := judged(t, gate)
			if fatal != test.fatal {
				t.Errorf("failed gates %q, want %q", fatal, test.fatal)
			}
			if warn != test.warn {
				t.Errorf("warnings %q, want %q", warn, test.warn)
			}
			if test.fingerprint.Matches { // trial's tests hold the others
				found = append(found, gate.Findings...)
			}
		})
	}
	return found
}

// judged is the names of the findings of a gate, space separated, those that make the
// trial broken with an exclamation mark.
func judged(t *testing.T, gate measurement.Gate) (fatal, warn string) {
	t.Helper()
	var failed, warned []string
	for _, c := range gate.Findings {
		if c.Fatal && c.PathFailure {
			failed = append(failed, c.Name+"!")
		} else if c.Fatal {
			failed = append(failed, c.Name)
		} else {
			warned = append(warned, c.Name)
		}
	}
	if gate.Passed != (len(failed) == 0) {
		t.Errorf("passed = %v with failed gates %q", gate.Passed, failed)
	}
	ofPath := len(failed) > 0 && !slices.ContainsFunc(failed, func(name string) bool { return !strings.HasSuffix(name, "!") })
	if gate.Broken != ofPath {
		t.Errorf("broken = %v with failed gates %q", gate.Broken, failed)
	}
	return strings.Join(failed, " "), strings.Join(warned, " ")
}

// goodBins are the series of a second after 0.2 s of warm-up.
func goodBins() *measurement.Bins {
	return &measurement.Bins{Width: 0.01, Bytes: make([]float64, 120)}
}

// goodOf is an outcome of a 1-second test of the kind that passes every gate.
func goodOf(spec measurement.Spec) measurement.Outcome {
	answers := &measurement.Distribution{Samples: 1000, Min: 1e-4, Max: 1e-3}
	o := measurement.Outcome{
		Metrics: measurement.Metrics{}, Warmup: 0.2, Throughput: goodBins(),
		Source:      measurement.End{Host: "a", CPUBusy: 0.5, BusiestCPU: 0.7},
		Destination: measurement.End{Host: "b", CPUBusy: 0.6, BusiestCPU: 0.7},
	}
	flows := func(reverse bool) {
		for range spec.Flows {
			o.Flows = append(o.Flows, measurement.Flow{Reverse: reverse, ReceivedBytes: 10e6})
		}
	}
	switch spec.Kind {
	case measurement.TCP, measurement.Load, measurement.FTP:
		flows(false)
		if spec.Direction == measurement.Both {
			flows(true)
		}
		rate := float64(len(o.Flows)) * 10e6 * 8
		o.Metrics["goodput_bits_per_second"], o.Metrics["load_bits_per_second"] = rate, rate
		o.IdleLatency, o.Latency = answers, answers
	case measurement.UDP:
		o.Metrics = measurement.Metrics{"goodput_bits_per_second": 80e6, "received_packets_per_second": 10_000, "loss_fraction": 0.1}
	case measurement.PPS:
		o.Metrics = measurement.Metrics{"packets_per_second": 100_000, "loss_fraction": 0.1}
	case measurement.CRR:
		o.Metrics = measurement.Metrics{"connections_per_second": 1000, "failed_connections_count": 0}
		o.Latency = answers
	case measurement.MTU:
		o.Metrics = measurement.Metrics{"path_mtu_bytes": 1500}
	}
	return o
}
