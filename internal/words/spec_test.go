package words

import (
	"slices"
	"strings"
	"testing"

	options "github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
)

// Whoever reads how a test was done learns of every option that was given, but for
// those that change nothing about the traffic.
func TestEveryOptionIsSaid(t *testing.T) {
	unsaid := []string{"file_crc32", "share_threads"}
	for _, o := range options.Options() {
		for _, name := range o.Kinds {
			without := measurement.Spec{Kind: name}.Defaults()
			with := without
			switch was := o.Get(without).(type) {
			case bool:
				o.Set(&with, !was)
			case float64:
				o.Set(&with, o.For(name).Most)
			case string:
				others := slices.DeleteFunc(slices.Clone(o.For(name).Words), func(w string) bool { return w == was })
				o.Set(&with, append(others, "x")[0])
			}
			if said := Spec(with) != Spec(without); said == slices.Contains(unsaid, o.Name) {
				t.Errorf("%s of a %s test is said: %v", o.Name, name, said)
			}
		}
	}
}

// A rate of requests below one is none of zero.
func TestRequestsPerSecond(t *testing.T) {
	for rate, want := range map[float64]string{0.5: "0.5 requests/s", 0.001: "0.001 requests/s", 1.5: "1.5 requests/s", 500: "500 requests/s", 12_500: "12500 requests/s"} {
		if got := Spec(measurement.Spec{Kind: measurement.RR, RequestsPerSecond: rate}); !strings.Contains(got, ", "+want+" at") {
			t.Errorf("%v requests a second are written %q, want %q", rate, got, want)
		}
	}
}
