package report_test

import (
	"bytes"
	"regexp"
	"strconv"
	"testing"

	"github.com/hopbench/hopbench/internal/report/reporttest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// BenchmarkFirstPaint is when a browser first shows something of the page of a whole run,
// from when it begins to fetch it, and when its script is done.
func BenchmarkFirstPaint(b *testing.B) {
	page := htmlText(b, reporttest.Run(b, 10))
	// The page's own policy would forbid the script that reads the times.
	page = regexp.MustCompile(`<meta http-equiv="Content-Security-Policy"[^>]*>`).ReplaceAll(page, nil)
	page = bytes.Replace(page, []byte("</body>"), []byte(`<script>
new PerformanceObserver(list => { for (const e of list.getEntries()) if (e.name === "first-contentful-paint") console.log("painted after " + e.startTime + " ms, loaded after " + performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd + " ms"); }).observe({type: "paint", buffered: true});
</script></body>`), 1)
	file := write(b, "report.html", page)
	times := regexp.MustCompile(`painted after ([0-9.]+) ms, loaded after ([0-9.]+) ms`)
	var painted, loaded float64
	for range b.N {
		_, log := browse(b, file, "--window-size=1100,900", "--timeout=1000", "--screenshot="+b.TempDir()+"/page.png")
		m := times.FindStringSubmatch(log)
		if m == nil {
			b.Fatalf("the browser told no time: %.2000s", log)
		}
		p, err := strconv.ParseFloat(m[1], 64)
		testutil.OK(b, err)
		l, err := strconv.ParseFloat(m[2], 64)
		testutil.OK(b, err)
		painted, loaded = painted+p, loaded+l
	}
	b.ReportMetric(painted/float64(b.N), "ms-painted")
	b.ReportMetric(loaded/float64(b.N), "ms-loaded")
	b.ReportMetric(float64(len(page)), "bytes")
}
