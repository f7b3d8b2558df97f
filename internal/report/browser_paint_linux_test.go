package report_test

import (
	"testing"

	"github.com/hopbench/hopbench/internal/report/reporttest"
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
