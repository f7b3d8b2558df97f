package measurement

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
)

func TestOnlyFinite(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(-1)
	whole := Outcome{Metrics: Metrics{"a": 1}, Throughput: &Bins{Width: 0.1, Bytes: []float64{1, 2}}, Facts: make([]string, 1, 8)}
	if got, n := OnlyFinite(whole); n != 0 || !reflect.DeepEqual(got, whole) {
		t.Errorf("%d, %+v", n, got)
	}
	broken := Outcome{
		Metrics:    Metrics{"a": 1, "b": nan},
		Warmup:     Seconds(inf),
		Throughput: &Bins{Width: 0.1, Bytes: []float64{1, inf, 3}},
		Flows:      []Flow{{ReceivedBytes: 1, Final: &TCPInfo{RTT: Seconds(nan), MSS: 1448}, Info: []TCPInfo{{At: 1}, {At: Seconds(nan)}}}},
		Pairs:      []Pair{{Source: "a", Delay: Seconds(nan)}, {Source: "b"}},
		Facts:      make([]string, 1, 8),
	}
	before := broken.Facts[:2][1]
	got := broken
	got.KeepFinite()
	want := Outcome{
		Metrics:    Metrics{"a": 1},
		Throughput: &Bins{Width: 0.1, Bytes: []float64{1, 0, 3}},
		Flows:      []Flow{{ReceivedBytes: 1, Final: &TCPInfo{MSS: 1448}, Info: []TCPInfo{{At: 1}}}},
		Pairs:      []Pair{{Source: "a"}, {Source: "b"}},
		Facts:      []string{"", "6 values of this trial were not finite numbers and are left out."},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if _, err := json.Marshal(got); err != nil {
		t.Error(err)
	}
	if !math.IsNaN(broken.Metrics["b"]) || broken.Facts[:2][1] != before {
		t.Error("what was given was changed")
	}
	if _, n := OnlyFinite(&broken); n != 6 {
		t.Errorf("%d values through a pointer", n)
	}
}
