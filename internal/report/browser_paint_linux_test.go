package report_test

import (
	"slices"
	"testing"

	"github.com/hopbench/hopbench/internal/report/reporttest"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil/browsertest"
)

// BenchmarkFirstPaint is when a browser first shows something of the page of a whole run,
// from when it begins to fetch it, and when its script is done: as the first page of a
// browser that was just started, whose own start takes the CPUs as well, and as a further
// one.
func BenchmarkFirstPaint(b *testing.B) {
	page := htmlText(b, reporttest.Run(b, 10))
	file := "file://" + write(b, "report.html", page)
	for _, kind := range []struct {
		name    string
		further bool
	}{{"further-page", true}, {"browser-just-started", false}} {
		b.Run(kind.name, func(b *testing.B) {
			painted, loaded := 0.0, 0.0
			var tab *browsertest.Tab
			show := func() (times [2]float64) {
				tab.Open(file)
				tab.Until(`performance.getEntriesByName("first-contentful-paint").length && performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd`)
				tab.Eval(`[performance.getEntriesByName("first-contentful-paint")[0].startTime, performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd]`, &times)
				tab.Open("about:blank")
				tab.Until(`location.href == "about:blank"`)
				return times
			}
			start := func() {
				tab = browsertest.OpenTab(b)
				tab.Show(1100, 900, "light")
			}
			if kind.further {
				start()
				show()
			}
			for range b.N {
				if !kind.further {
					start()
				}
				times := show()
				if !kind.further {
					tab.Close()
				}
				painted, loaded = painted+times[0], loaded+times[1]
			}
			b.ReportMetric(painted/float64(b.N), "ms-painted")
			b.ReportMetric(loaded/float64(b.N), "ms-loaded")
			b.ReportMetric(float64(len(page)), "bytes")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkScroll is how long the frames take while a reader scrolls from the head of the page
// of a fleet, 30 clients of 64 flows over 1740 s, to its end, at 3000 pixels a second.
func BenchmarkScroll(b *testing.B) {
	const width, height, pixelsPerSecond = 1100, 900, 3000
	sampled := sampledRun(30, 1740)
	r := reporttest.Pairs(b, 6, 30)
	r.Testbed.Kind, r.Sampled = result.TestbedFleet, map[string]*result.Sampled{}
	for _, t := range r.Trials {
		if t.Block == 1 && t.Test == "flows-10" {
			r.Sampled[t.ID] = sampled.Sampled["t"]
		}
	}
	page := htmlText(b, r)
	file := "file://" + write(b, "report.html", page)
	tab := browsertest.OpenTab(b)
	tab.Show(width, height, "light")
	var frames []float64 // milliseconds
	pixels := 0.0
	for range b.N {
		tab.Open(file)
		tab.Until(`document.readyState == "complete" && location.href != "about:blank"`)
		tab.Eval(`(() => { window.frames_ = []; let last = 0; const next = now => { if (last) frames_.push(now - last); last = now; requestAnimationFrame(next); }; requestAnimationFrame(next); return 0; })()`, new(int))
		for end := false; !end; { // the page gets longer where what was far below the screen had no layout
			tab.Call("Input.synthesizeScrollGesture", map[string]any{"x": width / 2, "y": height / 2, "yDistance": -5 * height, "speed": pixelsPerSecond}, nil)
			tab.Eval(`scrollY + innerHeight >= document.documentElement.scrollHeight - 1`, &end)
		}
		var once []float64
		tab.Eval(`frames_`, &once)
		frames = append(frames, once...)
		tab.Eval(`scrollY`, &pixels)
		tab.Open("about:blank")
		tab.Until(`location.href == "about:blank"`)
	}
	slices.Sort(frames)
	b.ReportMetric(frames[len(frames)/2], "ms-frame-p50")
	b.ReportMetric(frames[len(frames)*99/100], "ms-frame-p99")
	b.ReportMetric(frames[len(frames)-1], "ms-frame-max")
	b.ReportMetric(pixels, "pixels")
	b.ReportMetric(float64(len(page)), "bytes")
	b.ReportMetric(0, "ns/op")
}
