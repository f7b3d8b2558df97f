package rr_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/sampling"
	"github.com/hopbench/hopbench/internal/testutil"
)

// BenchmarkRRWhileCollecting shows what the garbage collector does to an rr
// test, which by itself allocates too little to be collected even once: the
// same test undisturbed, and with collections forced 10 and 100 times a second.
// Server and client share the process, so that each collection stops both.
//
//	go test ./internal/probe/rr -run '^$' -bench RRWhileCollecting -benchtime 5x
func BenchmarkRRWhileCollecting(b *testing.B) {
	for _, c := range []struct {
		name  string
		every time.Duration
	}{{"undisturbed", 0}, {"10 a second", 100 * time.Millisecond}, {"100 a second", 10 * time.Millisecond}} {
		b.Run(c.name, func(b *testing.B) {
			target := servertest.Serve(b, probe.ServerOptions{})
			sum := map[float64]float64{}
			collections := 0
			for range b.N {
				stop := func() {}
				if c.every > 0 {
					stop = sampling.Start(c.every, func() { runtime.GC(); collections++ }).End
				}
				out, err := probe.Run(servertest.Context(b), probe.Request{Target: target, Spec: measurement.Spec{Kind: measurement.RR, Duration: 0.5}}, nil)
				stop()
				testutil.OK(b, err)
				for _, p := range []float64{50, 99, 99.9} {
					v, ok := out.Latency.At(p)
					if !ok {
						b.Fatalf("%d round trips are too few for p%v", out.Latency.Samples, p)
					}
					sum[p] += float64(v)
				}
			}
			b.ReportMetric(0, "ns/op") // it is the length of the test, and says nothing
			for p, unit := range map[float64]string{50: "µs-p50", 99: "µs-p99", 99.9: "µs-p99.9"} {
				b.ReportMetric(sum[p]*1e6/float64(b.N), unit)
			}
			b.ReportMetric(float64(collections)/float64(b.N), "collections/op")
		})
	}
}
