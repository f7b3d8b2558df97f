package session

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A test that moves more than it may, or next to nothing, is ended with the reason;
// one in between is not.
func TestMeter(t *testing.T) {
	for _, c := range []struct {
		name  string
		least int64
		limit float64 // bit/s
		// moved are bytes in each second, from the first on.
		moved func(second int) int64
		want  string
		after time.Duration
	}{
		{"as fast as may be", LeastAtRate(0), 8e6, func(int) int64 { return 1e6 }, "", 0},
		{"a first burst", LeastAtRate(0), 8e6, func(s int) int64 { return map[bool]int64{true: 2e7, false: 1e6}[s == 0] }, "", 0},
		{"too fast", LeastAtRate(0), 8e6, func(int) int64 { return 2e6 }, "limit: the test moved 16.0 Mbit/s", 3 * time.Second},
		{"too fast later", LeastAtRate(0), 8e6, func(s int) int64 { return map[bool]int64{true: 1e6, false: 5e6}[s < 60] }, "limit:", 61 * time.Second},
		{"no bound", LeastAtRate(0), 0, func(int) int64 { return 1e12 }, "", 0},
		{"a byte now and then", LeastAtRate(0), 0, func(int) int64 { return 20 }, "timeout: 2400 bytes moved in 2m0s, and 120000 are", StillTime},
		{"where the rate is bounded, too", LeastAtRate(0), 8e6, func(int) int64 { return 20 }, "timeout:", StillTime},
		{"an outage shorter than that", LeastAtRate(0), 0, func(s int) int64 { return map[bool]int64{true: 0, false: 1e6}[s > 130 && s < 230] }, "", 0},
		{"slow as asked", LeastAtRate(1000), 0, func(int) int64 { return 120 }, "", 0},
		{"slower than asked", LeastAtRate(1e6), 0, func(int) int64 { return 120 }, "timeout:", StillTime},
		{"an answer now and then", LeastExchanges(0), 0, func(s int) int64 { return map[bool]int64{true: 1, false: 0}[s%100 == 0] }, "", 0},
		{"no answer", LeastExchanges(0), 0, func(int) int64 { return 0 }, "timeout:", StillTime},
		{"seldom asked", LeastExchanges(0.001), 0, func(int) int64 { return 0 }, "", 0},
		{"looks for the MTU", 0, 0, func(int) int64 { return 0 }, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var moved atomic.Int64
				m := NewCounts(TellNothing).NewMeter(Client{})
				began, said, after := time.Now(), "", time.Duration(0)
				m.Watch(c.limit, c.least, func(err error) {
					if said != "" {
						t.Error("a test is ended twice")
					}
					said, after = string(ReasonOf(err))+": "+err.Error(), time.Since(began)
				})
				done := m.Add(false, moved.Load)
				time.Sleep(time.Second / 2) // between two looks
				for s := range 10 * 60 {
					moved.Add(c.moved(s))
					time.Sleep(time.Second)
				}
				done()
				m.End()
				synctest.Wait()
				if c.want == "" && said != "" || !strings.HasPrefix(said, c.want) || after != c.after {
					t.Errorf("after %v: %q, want %q after %v", after, said, c.want, c.after)
				}
				if got := m.counts.Totals().ReceivedBytes; got != moved.Load() {
					t.Errorf("%d bytes are counted of %d", got, moved.Load())
				}
			})
		})
	}
}

// What this end paces counts as its rate, however early the kernel takes the bytes; the rest of
// a test is compared with what that leaves.
func TestMeterOfPacedFlows(t *testing.T) {
	for _, c := range []struct {
		name     string
		paced    float64 // bit/s, of a limit of 16 Mbit/s
		received int64   // in a second
		ended    bool
	}{
		{"all is paced", 16e6, 0, false},
		{"half is", 8e6, 1e6, false},
		{"half is, and the other end sends more than half", 8e6, 2e6, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var taken, received atomic.Int64
				m := NewCounts(TellNothing).NewMeter(Client{})
				var ended atomic.Pointer[error]
				m.Watch(16e6, LeastAtRate(0), func(err error) { ended.Store(&err) })
				doneSending, doneReceiving := m.AddPaced(c.paced, taken.Load), m.Add(false, received.Load)
				taken.Add(50e6) // into the buffers of many flows
				for range 30 {
					time.Sleep(time.Second)
					taken.Add(int64(c.paced / 8))
					received.Add(c.received)
				}
				if err := ended.Load(); (err != nil) != c.ended {
					t.Errorf("ended: %v, want %v", err, c.ended)
				}
				doneSending()
				doneReceiving()
				m.End()
				if got, want := m.Moved(), taken.Load()+received.Load(); got != want {
					t.Errorf("%d bytes moved, want %d", got, want)
				}
			})
		})
	}
}

// A test that has not started moves no more than it may, either; from its start on it is compared
// anew.
func TestMeterBeforeTheStart(t *testing.T) {
	for _, early := range []int64{0, 1e6, 5e6} { // bytes per second
		synctest.Test(t, func(t *testing.T) {
			var moved atomic.Int64
			var ended atomic.Pointer[error]
			halt := func(err error) { ended.Store(&err) }
			m := NewCounts(TellNothing).NewMeter(Client{})
			done := m.Add(false, moved.Load)
			m.Expect(8e6, halt)
			for range 200 { // longer than a test may stand still
				moved.Add(early)
				time.Sleep(time.Second)
			}
			if err := ended.Load(); (err != nil) != (early > 1e6) {
				t.Errorf("%d bytes per second before the start: %v", early, err)
			}
			ended.Store(nil)
			m.Watch(8e6, LeastAtRate(0), halt)
			moved.Add(2e7) // the first windows of flows
			for range 300 {
				time.Sleep(time.Second)
				moved.Add(1e6)
			}
			if err := ended.Load(); err != nil {
				t.Errorf("after %d bytes per second before the start: %v", early, *err)
			}
			m.Watch(8e6, LeastAtRate(0), halt) // as each further flow does
			time.Sleep(2 * StillTime)
			if ended.Load() == nil {
				t.Error("a test that stands still is not ended")
			}
			done()
			m.End()
		})
	}
}

// A server that stands still reads what came meanwhile all at once: that is no higher rate.
func TestMeterStandsStill(t *testing.T) {
	for _, late := range []time.Duration{10 * time.Second, 900 * time.Millisecond} {
		t.Run(late.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var moved atomic.Int64
				still := make(chan time.Duration, 1)
				m := NewCounts(TellNothing).NewMeter(Client{})
				m.Watch(8e6, LeastAtRate(0), func(err error) { t.Error(err) })
				done := m.Add(false, func() int64 {
					n := moved.Load()
					select {
					case d := <-still:
						time.Sleep(d)
					default:
					}
					return n
				})
				time.Sleep(time.Second / 2) // between two looks
				for s := range 60 {
					if s == 10 { // it stands still from now on, over the next look
						still <- late
						time.Sleep(late + 3*time.Second/4)                           // until just after that
						moved.Add(min(5e6, (late + 3*time.Second/4).Microseconds())) // what buffers held
					}
					moved.Add(1e6)
					time.Sleep(time.Second)
				}
				done()
				m.End()
			})
		})
	}
}
