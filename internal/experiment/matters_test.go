package experiment

import (
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestParseMatters(t *testing.T) {
	got, err := ParseMatters("rtt=50us, goodput=3%,rtt_p99=1ms")
	testutil.OK(t, err)
	want := map[string]measurement.Margin{
		"rtt_p50_seconds": {Amount: 50e-6}, "rtt_p99_seconds": {Amount: 1e-3}, "goodput_bits_per_second": {Fraction: 0.03},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for text, says := range map[string]string{
		"":                             `"" is no metric with its margin`,
		"rtt":                          `"rtt" is no metric with its margin; write it as in rtt=50us`,
		"rtt=3%":                       `"3%" is no margin of RTT p50, which is judged by its difference; write a time, as in 50us`,
		"goodput=50us":                 "is judged by its ratio; write a share, as in 3%",
		"goodput=3Mbit":                "is judged by its ratio; write a share, as in 3%",
		"goodput=0":                    "a margin of zero",
		"goodput=100%":                 "write less than 100%",
		"rtt=-1us":                     `"-1us" is no margin`,
		"rtt=":                         `"" is no margin`,
		"=3%":                          `there is no metric ""`,
		"goodpt=3%":                    `did you mean "goodput"?`,
		"rtt_max_seconds=1ms":          "no verdict is given on rtt_max_seconds",
		"rtt_p50=1us,rtt_p50=2us":      "both set the margin of rtt_p50_seconds; leave one of them out",
		"loaded=1us,loaded_rtt=2us":    "both set the margin of loaded_rtt_p50_seconds",
		"goodput=3%,rtt=3%,speed=fast": `there is no metric "speed"; leave it out; it can have goodput, `,
	} {
		if _, err := ParseMatters(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q gives %v, want %q in it", text, err, says)
		}
	}
}

// What is written into the command that repeats a run is read as the very same.
func TestFormatMattersReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		matters := map[string]measurement.Margin{}
		for _, m := range judged() {
			if !rapid.Bool().Draw(t, "given "+m.Name) {
				continue
			}
			switch {
			case m.ByRatio():
				matters[m.Name] = measurement.Margin{Fraction: float64(rapid.IntRange(1, 9999).Draw(t, "share")) / 10000}
			case m.Unit == measurement.SecondsUnit:
				matters[m.Name] = measurement.Margin{Amount: time.Duration(rapid.Int64Range(1, 1e13).Draw(t, "ns")).Seconds()}
			case m.Unit == measurement.Fraction:
				matters[m.Name] = measurement.Margin{Amount: float64(rapid.IntRange(1, 9999).Draw(t, "points")) / 10000}
			default:
				matters[m.Name] = measurement.Margin{Amount: float64(rapid.IntRange(1, 1e9).Draw(t, "count"))}
			}
		}
		if len(matters) == 0 {
			return
		}
		text := FormatMatters(matters)
		if got, err := ParseMatters(text); err != nil || !maps.Equal(got, matters) {
			t.Fatalf("%v is written as %s and read as %v (%v)", matters, text, got, err)
		}
	})
}

func TestMattersAndContrastsOfAFile(t *testing.T) {
	e, err := Load("everything.yaml", testutil.Files(t, "testdata/good/everything.yaml")["testdata/good/everything.yaml"])
	testutil.OK(t, err)
	want := map[string]measurement.Margin{
		"goodput_bits_per_second": {Fraction: 0.03}, "rtt_p50_seconds": {Amount: 50e-6}, "rtt_p99_seconds": {Amount: 1e-3},
		"connect_p50_seconds": {Amount: 100e-6}, "cpu_seconds_per_byte": {Fraction: 0.1},
	}
	if !maps.Equal(e.Matters, want) {
		t.Errorf("matters are %v, want %v", e.Matters, want)
	}
	if len(e.Contrasts) != 2 || e.Contrasts[0].Path != "lossy" || e.Contrasts[0].Baseline != "wire" || e.Contrasts[1].Against.Path != "lossy-too" {
		t.Errorf("contrasts are %+v", e.Contrasts)
	}
	over, err := e.With(Overrides{Matters: map[string]measurement.Margin{"rtt_p50_seconds": {Amount: 1}}})
	testutil.OK(t, err)
	if len(over.Matters) != len(want) || over.Matters["rtt_p50_seconds"].Amount != 1 || over.Matters["cpu_seconds_per_byte"].Fraction != 0.1 {
		t.Errorf("with a command line's margin: %v", over.Matters)
	}
	if !maps.Equal(e.Matters, want) {
		t.Error("With changed the original")
	}
	info := over.Info()
	if info.Matters["rtt_p50_seconds"].Amount != 1 || !reflect.DeepEqual(info.Contrasts, e.Contrasts) {
		t.Errorf("the result says %+v and %+v", info.Matters, info.Contrasts)
	}
	plain := bundled(t, "routing-appliance")
	if c := plain.Comparisons(); len(c) != 2 || c[0].Path != "one-appliance" || c[1].Baseline != "direct" || plain.Info().Contrasts != nil {
		t.Errorf("without contrasts: %+v", c)
	}
}
