package runner_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/runner"
)

// goodTCP is an outcome that passes every gate for a 1-second test.
func goodTCP() measurement.Outcome {
	bins := make([]float64, 130)
	for i := range bins {
		bins[i] = 1e6
	}
	return measurement.Outcome{
		Metrics: measurement.Metrics{"goodput_bits_per_second": 0.8e9},
		Warmup:  0.2, WarmupSteady: true,
		Throughput: &measurement.Bins{Width: 0.01, Bytes: bins},
		Flows:      []measurement.Flow{{ReceivedBytes: 50e6}, {ReceivedBytes: 50e6}},
		Source:     measurement.End{CPUBusy: 0.5}, Destination: measurement.End{CPUBusy: 0.6},
	}
}

func tcpSpec() measurement.Spec {
	return measurement.Spec{Kind: measurement.TCP, Flows: 2, Duration: 1, MaxWarmup: 0.3}.Defaults()
}

func TestGates(t *testing.T) {
	took := measurement.Fingerprint{Matches: true}
	latency := func(d *measurement.Distribution) measurement.Outcome { return measurement.Outcome{Latency: d} }
	rr := measurement.Spec{Kind: measurement.RR}.Defaults()
	for _, test := range []struct {
		name        string
		spec        measurement.Spec
		outcome     measurement.Outcome
		change      func(*measurement.Outcome)
		fingerprint measurement.Fingerprint
		limits      runner.Limits
		err         error
		fatal, warn string // names of the checks expected, space separated
	}{
		{name: "good", spec: tcpSpec(), fingerprint: took},
		{name: "test failed", spec: tcpSpec(), fingerprint: took, err: errors.New("connection reset"), fatal: "test"},
		{name: "other path", spec: tcpSpec(), fingerprint: measurement.Fingerprint{Why: "an extra hop"}, fatal: "fingerprint"},
		{name: "nothing received", spec: tcpSpec(), fingerprint: took, fatal: "receiver-confirmed",
			change: func(o *measurement.Outcome) { o.Metrics = measurement.Metrics{} }},
		{name: "a flow is missing", spec: tcpSpec(), fingerprint: took, fatal: "flows",
			change: func(o *measurement.Outcome) { o.Flows = o.Flows[:1] }},
		{name: "a handful of socket buffers", spec: tcpSpec(), fingerprint: took, fatal: "enough-flow",
			change: func(o *measurement.Outcome) { o.Flows[1].ReceivedBytes = 20_000 }},
		{name: "both ways bring twice the flows", spec: measurement.Spec{Kind: measurement.TCP, Flows: 1, Direction: measurement.Both, Duration: 1, MaxWarmup: 0.3}.Defaults(), fingerprint: took},
		{name: "half of both ways", spec: measurement.Spec{Kind: measurement.TCP, Flows: 2, Direction: measurement.Both, Duration: 1, MaxWarmup: 0.3}.Defaults(), fingerprint: took, fatal: "flows"},
		{name: "datagrams arrived", spec: measurement.Spec{Kind: measurement.UDP}, fingerprint: took,
			outcome: measurement.Outcome{Metrics: measurement.Metrics{"goodput_bits_per_second": 1}}},
		{name: "no datagram arrived", spec: measurement.Spec{Kind: measurement.UDP}, fingerprint: took, fatal: "receiver-confirmed",
			outcome: measurement.Outcome{Metrics: measurement.Metrics{"goodput_bits_per_second": 0}}},
		{name: "no small packet arrived", spec: measurement.Spec{Kind: measurement.PPS}, fingerprint: took, fatal: "receiver-confirmed"},
		{name: "few answers for a person", spec: rr, fingerprint: took, warn: "enough-samples", limits: runner.Limits{FewWarn: true},
			outcome: latency(&measurement.Distribution{Samples: 3, Min: 1, Max: 2})},
		{name: "cut short", spec: tcpSpec(), fingerprint: took, fatal: "duration",
			change: func(o *measurement.Outcome) { o.Throughput.Bytes = o.Throughput.Bytes[:100] }},
		{name: "more than the cap", spec: tcpSpec(), fingerprint: took, fatal: "possible",
			limits: runner.Limits{SourceEgressBitsPerSecond: 0.7e9}},
		{name: "the cap of the end that only receives does not bind", spec: tcpSpec(), fingerprint: took,
			limits: runner.Limits{DestinationEgressBitsPerSecond: 0.1e9}},
		{name: "more than a hop carries", spec: tcpSpec(), fingerprint: took, fatal: "possible",
			limits: runner.Limits{PathBitsPerSecond: 0.5e9}},
		{name: "busy host", spec: tcpSpec(), fingerprint: took, fatal: "cpu",
			change: func(o *measurement.Outcome) { o.Source.CPUBusy = 0.99 }},
		{name: "busy lab", spec: tcpSpec(), fingerprint: took, warn: "cpu", limits: runner.Limits{BusyWarns: true},
			change: func(o *measurement.Outcome) { o.Source.CPUBusy = 0.99 }},
		{name: "round trips", spec: rr, fingerprint: took,
			outcome: latency(&measurement.Distribution{Samples: 100, Min: 1e-4, Max: 1e-3})},
		{name: "no answers", spec: rr, fingerprint: took, outcome: latency(nil), fatal: "receiver-confirmed"},
		{name: "few answers", spec: rr, fingerprint: took, fatal: "enough-samples",
			outcome: latency(&measurement.Distribution{Samples: 3, Min: 1e-4, Max: 1e-3})},
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
			gate := runner.Judge(test.spec, o, test.fingerprint, test.limits, test.err)
			var fatal, warn []string
			for _, c := range gate.Checks {
				if c.Reason == "" {
					t.Errorf("check %s gives no reason", c.Name)
				}
				if c.Fatal {
					fatal = append(fatal, c.Name)
				} else {
					warn = append(warn, c.Name)
				}
			}
			if got := strings.Join(fatal, " "); got != test.fatal {
				t.Errorf("failed gates %q, want %q", got, test.fatal)
			}
			if got := strings.Join(warn, " "); got != test.warn {
				t.Errorf("warnings %q, want %q", got, test.warn)
			}
			if gate.Passed != (test.fatal == "") {
				t.Errorf("passed = %v with failed gates %q", gate.Passed, test.fatal)
			}
		})
	}
}
