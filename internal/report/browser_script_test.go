package report_test

import (
	"encoding/json"
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/report"
	reporthtml "github.com/hopbench/hopbench/internal/report/html"
	"github.com/hopbench/hopbench/internal/report/reporttest"
	"github.com/hopbench/hopbench/internal/testutil"
	"github.com/hopbench/hopbench/internal/testutil/browsertest"
	"github.com/hopbench/hopbench/internal/words"
)

// dragging draws the pointer over a chart.
const dragging = `
const drag = (svg, from, to) => {
  const m = svg.getScreenCTM(), w = svg.ownerDocument.defaultView;
  const event = (type, [x, y]) => {
    const p = new DOMPoint(x, y).matrixTransform(m);
    svg.dispatchEvent(new w.PointerEvent(type, {clientX: p.x, clientY: p.y, button: 0, pointerId: 1, bubbles: true}));
  };
  svg.setPointerCapture = () => {};
  event("pointerdown", from); event("pointermove", to); event("pointerup", to);
};`

// usingScript does with the page in a frame what a reader does, and writes what comes of it.
// The page is as it is sent, with its policy.
const usingScript = dragging + `
const use = async frame => {
  const d = frame.contentDocument, w = frame.contentWindow, done = {};
  d.querySelectorAll("details").forEach(e => e.open = true);
  const trials = d.querySelector("table.trials"), tools = trials.closest(".scroll").previousElementSibling;
  const column = i => [...trials.tBodies[0].rows].filter(r => !r.hidden).map(r => r.cells[i].textContent);
  const sort = i => trials.tHead.rows[0].cells[i].querySelector("button").click();
  done.rows = trials.tBodies[0].rows.length;
  sort(4); done.up = column(4);
  sort(4); done.down = column(4);
  const input = tools.querySelector("input");
  input.value = "excluded"; input.dispatchEvent(new w.Event("input"));
  done.filtered = column(7); done.count = tools.querySelector("span").textContent;
  let copied = "";
  Object.defineProperty(w.navigator, "clipboard", {value: {writeText: async s => { copied = s; }}});
  tools.querySelector("button").click();
  await new Promise(r => setTimeout(r, 50));
  done.copied = copied;
  d.querySelector("#reproduce pre").previousElementSibling.querySelector("button").click();
  await new Promise(r => setTimeout(r, 50));
  done.command = copied;
  done.charts = {};
  for (const id of ["time", "latency"]) {
    const svg = d.querySelector("#" + id + " svg"), plot = svg.querySelector(".plot");
    const [left, right] = plot.dataset.x.split(" ").map(Number), [bottom, top] = plot.dataset.y.split(" ").map(Number);
    const ticks = () => [...svg.querySelectorAll("text.tick")].filter(t => t.getBoundingClientRect().width > 0 && t.getAttribute("text-anchor") === "middle").map(t => t.textContent);
    const chart = done.charts[id] = {before: ticks(), edges: plot.dataset.x};
    drag(svg, [left + (right - left) * .5, top + 5], [left + (right - left) * .75, top + 8]);
    chart.magnified = plot.getAttribute("transform"); chart.ticks = ticks(); chart.button = !svg.nextElementSibling.hidden;
    drag(svg, [left + 50, top + 5], [left + 52, top + 8]); // too small to be meant
    chart.same = plot.getAttribute("transform") === chart.magnified;
    d.dispatchEvent(new w.KeyboardEvent("keydown", {key: "Escape"}));
    chart.after = ticks(); chart.left = plot.getAttribute("transform");
  }
  return done;
};`

// touringScript does the same with every table and chart of a page, whichever it is.
const touringScript = dragging + `
const use = async frame => {
  const d = frame.contentDocument, w = frame.contentWindow;
  d.querySelectorAll("details").forEach(e => e.open = true);
  const tables = [...d.querySelectorAll("table.plain")].map(table => {
    const rows = () => [...table.tBodies[0].rows].map(r => r.textContent);
    const tools = (table.closest(".scroll") ?? table).previousElementSibling;
    const out = {rows: rows(), orders: [], copies: tools.querySelectorAll("button").length};
    for (const b of table.tHead.querySelectorAll("button")) { b.click(); out.orders.push(rows()); }
    const input = tools.querySelector("input");
    if (input) {
      input.value = "no row has this"; input.dispatchEvent(new w.Event("input"));
      out.left = [...table.tBodies[0].rows].filter(r => !r.hidden).length;
      out.filters = true;
    }
    return out;
  });
  const charts = [...new Set([...d.querySelectorAll(".plot")].map(p => p.ownerSVGElement))].map(svg => {
    const plot = svg.querySelector(".plot");
    const [left, right] = plot.dataset.x.split(" ").map(Number), [bottom, top] = plot.dataset.y.split(" ").map(Number);
    drag(svg, [left + (right - left) * .25, top + 5], [left + (right - left) * .75, top + 8]);
    const magnified = plot.getAttribute("transform"), back = svg.nextElementSibling;
    const ticks = [...svg.querySelectorAll("text.tick")].filter(t => t.getBoundingClientRect().width > 0).map(t => t.textContent);
    back.click();
    return {magnified, ticks, left: plot.getAttribute("transform"), hidden: back.hidden};
  });
  return {tables, charts};
};`

type toured struct {
	Tables []struct {
		Rows         []string
		Orders       [][]string
		Copies, Left int
		Filters      bool
	}
	Charts []struct {
		Magnified, Left *string
		Ticks           []string
		Hidden          bool
	}
}

// otherPages are those that are no report of a run.
func otherPages(t *testing.T) map[string][]byte {
	t.Helper()
	return map[string][]byte{
		"comparison": written(t, reporthtml.WriteComparison, comparisonFixture(t)),
		"history":    written(t, reporthtml.WriteHistory, report.NewHistory(watchedPath(60*96))),
		"index":      indexPageText(t, indexFixture(t)),
	}
}

// Nothing of the other pages is cut off either.
func TestBrowserLayoutOfOtherPages(t *testing.T) {
	browsertest.Program(t)
	for name, page := range otherPages(t) {
		t.Run(name, func(t *testing.T) {
			for width, m := range measurePage(t, page, []int{360, 390, 700, 768, 1024, 1280, 1600}) {
				if m.Scroll > m.Width || len(m.Wide) > 0 {
					t.Errorf("the page is %d wide in a window of %d; beyond its edge are %q", m.Scroll, m.Width, m.Wide)
				}
				if len(m.Cut) > 0 && width >= 390 {
					t.Errorf("in a window of %d, wider than their containers are %q", m.Width, m.Cut)
				}
			}
			if folder := os.Getenv(screenshotsEnv); folder != "" {
				file := write(t, "page.html", page)
				phone := write(t, "phone.html", fmt.Appendf(nil, `<!doctype html><body style="margin:0"><iframe src="file://%s" style="border:0;width:390px;height:2600px"></iframe>`, file))
				browse(t, file, "--window-size=1100,1500", "--screenshot="+filepath.Join(folder, name+".png"))
				browse(t, phone, "--window-size=500,2600", "--screenshot="+filepath.Join(folder, name+"-phone.png"))
			}
		})
	}
}

// Every page has the same tools at its tables and charts.
func TestBrowserUsesEveryPage(t *testing.T) {
	pages := otherPages(t)
	for _, c := range []struct {
		name           string
		page           []byte
		tables, charts int
	}{
		{"comparison", pages["comparison"], 1, 0},
		{"history", pages["history"], 1, 3},
		{"index", pages["index"], 1, 0},
		{"report", htmlText(t, reporttest.Run(t, 10)), 2, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got toured
			useInBrowser(t, c.page, touringScript, &got)
			if len(got.Tables) < c.tables || len(got.Charts) < c.charts {
				t.Errorf("%d tables and %d charts, want %d and %d", len(got.Tables), len(got.Charts), c.tables, c.charts)
			}
			for i, table := range got.Tables {
				if table.Copies == 0 || len(table.Rows) > 1 && len(table.Orders) == 0 || len(table.Rows) >= 8 && !table.Filters || table.Left != 0 {
					t.Errorf("table %d has %d rows, %d columns to sort by, %d buttons, a filter %v that leaves %d", i, len(table.Rows), len(table.Orders), table.Copies, table.Filters, table.Left)
				}
				rows := slices.Sorted(slices.Values(table.Rows))
				for _, order := range table.Orders {
					if !slices.Equal(slices.Sorted(slices.Values(order)), rows) {
						t.Errorf("table %d has other rows when it is sorted: %q of %q", i, order, rows)
					}
				}
			}
			for i, chart := range got.Charts {
				if chart.Magnified == nil || chart.Left != nil || !chart.Hidden || len(chart.Ticks) < 2 || slices.ContainsFunc(chart.Ticks, func(s string) bool { return strings.Contains(s, "NaN") }) {
					t.Errorf("chart %d: %+v", i, chart)
				}
			}
		})
	}
}

type used struct {
	Rows                   int
	Up, Down, Filtered     []string
	Count, Copied, Command string
	Charts                 map[string]struct {
		Before, Ticks, After []string
		Edges                string
		Magnified, Left      *string
		Button, Same         bool
	}
}

// useInBrowser runs a script that defines use(frame) on a page in a frame, and reads what
// it returns.
func useInBrowser(t *testing.T, page []byte, script string, got any) {
	t.Helper()
	browsertest.Program(t)
	frame := fmt.Sprintf(`<!doctype html><meta charset="utf-8"><pre id="out"></pre><iframe src="file://%s" style="width:1100px;height:800px"></iframe><script>%s
document.querySelector("iframe").addEventListener("load", async e => {
  let s;
  try { s = JSON.stringify(await use(e.target)); } catch (err) { s = JSON.stringify(String(err.stack)); }
  document.getElementById("out").textContent = s;
});</script>`, write(t, "page.html", page), script)
	out, log := browse(t, write(t, "frame.html", []byte(frame)), "--allow-file-access-from-files", "--window-size=1300,900", "--virtual-time-budget=8000", "--dump-dom")
	_, rest, _ := strings.Cut(out, `<pre id="out">`)
	text, _, _ := strings.Cut(rest, "</pre>")
	if err := json.Unmarshal([]byte(html.UnescapeString(text)), got); err != nil {
		t.Fatalf("%v in %.600q\n%s", err, text, log)
	}
	if strings.Contains(log, "Refused") || strings.Contains(log, "Uncaught") {
		t.Errorf("the page's own script did not run, or not all of it: %s", log)
	}
}

// What a reader does with a page's tables and charts.
func TestBrowserUsesThePage(t *testing.T) {
	var got used
	useInBrowser(t, htmlText(t, reporttest.Run(t, 10)), usingScript, &got)
	if got.Rows < 40 || len(got.Up) != got.Rows || len(got.Down) != got.Rows || slices.Equal(got.Up, got.Down) {
		t.Errorf("%d rows, %d and %d sorted", got.Rows, len(got.Up), len(got.Down))
	}
	// In base units a time is less than a rate, whatever the number before its unit.
	if !strings.Contains(got.Up[0], "ms") || !strings.Contains(got.Down[0], "Gbit/s") {
		t.Errorf("sorted by result, the first is %q, and down %q", got.Up[0], got.Down[0])
	}
	if len(got.Filtered) == 0 || len(got.Filtered) == got.Rows || slices.ContainsFunc(got.Filtered, func(s string) bool { return !strings.Contains(s, "excluded") }) {
		t.Errorf("filtered are %q", got.Filtered)
	}
	if want := fmt.Sprintf("%d of %d", len(got.Filtered), got.Rows); got.Count != want {
		t.Errorf("the filter says %q, not %q", got.Count, want)
	}
	if lines := strings.Split(got.Copied, "\n"); len(lines) != len(got.Filtered)+1 || !strings.HasPrefix(lines[0], "order\tblock\tpath\t") || strings.Count(lines[1], "\t") != 8 {
		t.Errorf("copied is %.300q", got.Copied)
	}
	if got.Command != "hopbench run routing-appliance --blocks 10 --seed 4242" {
		t.Errorf("copied is the command %q", got.Command)
	}
	for name, c := range got.Charts {
		var wide, high float64
		if c.Magnified != nil {
			_, err := fmt.Sscanf(*c.Magnified, "matrix(%g 0 0 %g ", &wide, &high)
			testutil.OK(t, err)
		}
		if math.Abs(wide-4) > 0.1 || high != 1 || !c.Button || !c.Same {
			t.Errorf("%s: magnified four times, a chart is by %g and %g, has a button %v, is the same after a click %v", name, wide, high, c.Button, c.Same)
		}
		if len(c.Ticks) < 2 || slices.Equal(c.Ticks, c.Before) {
			t.Errorf("%s: its ticks are %q of %q", name, c.Ticks, c.Before)
		}
		if c.Left != nil || !slices.Equal(c.After, c.Before) {
			t.Errorf("%s: after Escape it has %v, ticks %q instead of %q", name, c.Left, c.After, c.Before)
		}
		t.Logf("%s: %s, %q of %q", name, c.Edges, c.Ticks, c.Before)
	}
}

// Tables sort numbers as package words writes them, in base units.
func TestBrowserSortsWhatReportsWrite(t *testing.T) {
	var want []string
	for _, column := range []struct {
		unit   measurement.Unit
		values []float64
	}{
		{measurement.Count, []float64{-3, 7, 99_900, 123_000, 1.5e6, 4e7}},
		{measurement.SecondsPerByte, []float64{9.5e-10, 1.2e-9, 3e-6}},
		{measurement.SecondsUnit, []float64{-2e-6, 5e-8, 4e-6, 3e-3, 2}},
		{measurement.BitsPerSecond, []float64{9.9e8, 1.2e9, 1e12}},
		{measurement.Bytes, []float64{1500, 1e4, 2e6}},
		{measurement.Fraction, []float64{3e-9, 4e-5, 0.02}},
	} {
		var texts []string
		for _, v := range column.values {
			texts = append(texts, words.Value(v, column.unit))
		}
		want = append(want, strings.Join(texts, "|"))
	}
	want = append(want, "< 0.0001|0.0003|0.02|1") // p of a comparison
	list, err := json.Marshal(want)
	testutil.OK(t, err)
	var got []string
	useInBrowser(t, htmlText(t, reporttest.Run(t, 10)), fmt.Sprintf(`const use = async frame => {
  const trials = frame.contentDocument.querySelector("table.trials"), body = trials.tBodies[0];
  return %s.map(texts => {
    const values = texts.split("|").reverse();
    [...body.rows].forEach((r, i) => { r.cells[4].textContent = values[i] ?? ""; });
    const head = trials.tHead.rows[0].cells[4];
    head.removeAttribute("aria-sort");
    head.querySelector("button").click();
    return [...body.rows].map(r => r.cells[4].textContent).filter(v => v !== "").join("|");
  });
};`, list), &got)
	if !slices.Equal(got, want) {
		t.Errorf("sorted are\n%q, want\n%q", got, want)
	}
}

// A filter hides rows also where a table is a list, as on a phone.
func TestBrowserFiltersOnAPhone(t *testing.T) {
	for _, width := range []int{390, 1100} {
		var got struct{ Rows, Left, Shown int }
		useInBrowser(t, htmlText(t, reporttest.Run(t, 10)), fmt.Sprintf(`const use = async frame => {
  frame.style.width = "%dpx";
  const d = frame.contentDocument, w = frame.contentWindow, trials = d.querySelector("table.trials"), rows = [...trials.tBodies[0].rows];
  d.querySelectorAll("details").forEach(e => e.open = true);
  const input = trials.closest(".scroll").previousElementSibling.querySelector("input");
  input.value = "excluded"; input.dispatchEvent(new w.Event("input"));
  return {rows: rows.length, left: rows.filter(r => !r.hidden).length, shown: rows.filter(r => w.getComputedStyle(r).display !== "none").length};
};`, width), &got)
		if got.Left == 0 || got.Left == got.Rows || got.Shown != got.Left {
			t.Errorf("in a window of %d, %d of %d rows are left and %d shown", width, got.Left, got.Rows, got.Shown)
		}
	}
}
