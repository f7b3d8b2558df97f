package html

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/testutil"
)

// TestContrast computes the contrast of every text colour on its ground as
// WCAG 2.2 defines it (relative luminance, success criterion 1.4.3).
func TestContrast(t *testing.T) {
	light, dark, found := strings.Cut(pageCSS, "@media screen and (prefers-color-scheme: dark)")
	if !found {
		t.Fatal("the style sheet has no dark half")
	}
	dark, _, _ = strings.Cut(dark, "\n}\n")
	for name, css := range map[string]string{"light": light, "dark": dark} {
		colours := map[string]float64{}
		for _, m := range regexp.MustCompile(`--([a-z0-9-]+): (#[0-9a-f]{6})`).FindAllStringSubmatch(css, -1) {
			colours[m[1]] = luminance(t, m[2])
		}
		pairs := [][2]string{{"text", "page"}, {"text", "card"}, {"soft", "page"}, {"soft", "card"}, {"soft", "warm"}, {"costs", "page"}, {"costs", "costs-back"},
			{"fine", "page"}, {"fine", "fine-back"}, {"open", "page"}, {"open", "open-back"}}
		for i := range report.PathColours {
			pairs = append(pairs, [2]string{fmt.Sprintf("c%d", i), "page"})
		}
		for _, p := range pairs {
			a, okA := colours[p[0]]
			b, okB := colours[p[1]]
			if !okA || !okB {
				t.Errorf("%s: no colour %s or %s", name, p[0], p[1])
				continue
			}
			if c := (max(a, b) + 0.05) / (min(a, b) + 0.05); c < 4.5 {
				t.Errorf("%s: %s on %s has a contrast of %.2f, less than 4.5", name, p[0], p[1], c)
			}
		}
	}
}

// luminance is WCAG's relative luminance of an sRGB colour.
func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	l := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
		testutil.OK(t, err)
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		l += weight * c
	}
	return l
}

// An end that does not tell how busy its CPUs were, such as a stock server, was not idle.
func TestBusyEnds(t *testing.T) {
	for want, busy := range map[string][2]float64{"": {0, 0}, "45 / —": {0.45, 0}, "— / 7": {0, 0.07}, "0 / 100": {0.001, 1}} {
		trial := &measurement.Trial{}
		trial.Source, trial.Destination = measurement.End{CPUs: 2, CPUBusy: busy[0]}, measurement.End{CPUs: 2, CPUBusy: busy[1]}
		if got := cpuText(trial); got != want {
			t.Errorf("%v: %q, want %q", busy, got, want)
		}
	}
}
