package tcp

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/probetest"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/testutil"
)

// Neither do the two ends of a bulk transfer, frame by frame, on threads or in
// the poller, whichever way the payload is sent and received.
func TestStreamLoopsDoNotAllocate(t *testing.T) {
	for name, connected := range map[string]func(testing.TB) (session.ControlConn, session.ControlConn){"thread": probetest.Conns, "poller": probetest.AttachedConns} {
		for _, spec := range []measurement.Spec{
			{Duration: 60, SendMethod: measurement.SendCopy},
			{Duration: 60, CopyPayload: true},
			{Duration: 60, SendMethod: measurement.SendZerocopy},
		} {
			if runtime.GOOS != "linux" && spec.SendMethod == measurement.SendZerocopy {
				continue
			}
			near, far := connected(t)
			shared := newBulk()
			s, err := shared.newSender(near, spec, 0)
			testutil.OK(t, err)
			s.mustFinish = true
			r := newReceiver(far, spec, make([]byte, discardBytes), true)
			r.start = time.Now()
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = r.run() // ends, with an error, when the sender closes
			}()
			checked := time.Now()
			n := probetest.Allocations(500, func() {
				if _, err := s.sendFrame(minFrame, &checked); err != nil {
					t.Fatal(err)
				}
			})
			testutil.OK(t, s.Close())
			<-done
			if got, want := r.count.Load(), s.sent.Load(); got != want {
				t.Errorf("%s %+v: received %d of %d bytes", name, spec, got, want)
			}
			if n != 0 {
				t.Errorf("%s %+v: a data frame allocates %v times", name, spec, n)
			}
			if err := shared.close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestChooseWindow(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const width = 10 * time.Millisecond
	series := func(n int, at func(i int) float64) []float64 {
		s := make([]float64, n)
		for i := range s {
			s[i] = at(i)*1e6 + rng.NormFloat64()*2e4
		}
		return s
	}
	spec := measurement.Spec{Duration: 1, MaxWarmup: 0.5}
	for _, c := range []struct {
		name           string
		at             func(i int) float64
		earliest, last int
		steady         bool
	}{
		{"steady from the start", func(int) float64 { return 1 }, 5, 30, true},
		{"slow start for 200 ms", func(i int) float64 { return min(float64(i)/20, 1) }, 15, 40, true},
		{"overshoot for 150 ms", func(i int) float64 {
			if i < 15 {
				return 2
			}
			return 1
		}, 15, 40, true},
		{"rising all the time", func(i int) float64 { return float64(i) / 150 }, 50, 50, false},
	} {
		s := series(150, c.at)
		w := chooseWindow(s, width, spec)
		if w.first < c.earliest || w.first > c.last || w.steady != c.steady {
			t.Errorf("%s: window %+v, want it to start in %d..%d, steady %v", c.name, w, c.earliest, c.last, c.steady)
		}
		if w.last-w.first != 100 || w.last > len(s) {
			t.Errorf("%s: window %+v is not a second long", c.name, w)
		}
	}
	// Whatever the series, the window fits it.
	for range 2000 {
		spec := measurement.Spec{Duration: measurement.Seconds(0.01 + rng.Float64()), MaxWarmup: measurement.Seconds(rng.Float64() * 0.5), Lead: measurement.Seconds(max(0, rng.Float64()*60-30))}
		n, width := session.BinsOf(spec)
		w := chooseWindow(make([]float64, n), width, spec)
		if w.first < 0 || w.last > n || w.first >= w.last || float64(w.first+1)*width.Seconds() < float64(spec.Lead) {
			t.Fatalf("%+v: window %+v of %d bins", spec, w, n)
		}
	}
}
