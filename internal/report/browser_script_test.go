package report_test

import (
	"encoding/json"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/report/reporttest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// usingScript does with the page in a frame what a reader does, and writes what comes of it.
// The page is as it is sent, with its policy.
const usingScript = `
const drag = (svg, from, to) => {
  const m = svg.getScreenCTM(), w = svg.ownerDocument.defaultView;
  const event = (type, [x, y]) => {
    const p = new DOMPoint(x, y).matrixTransform(m);
    svg.dispatchEvent(new w.PointerEvent(type, {clientX: p.x, clientY: p.y, button: 0, pointerId: 1, bubbles: true}));
  };
  svg.setPointerCapture = () => {};
  event("pointerdown", from); event("pointermove", to); event("pointerup", to);
};
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

// What a reader does with a page's tables and charts.
func TestBrowserUsesThePage(t *testing.T) {
	browser(t)
	inner := write(t, "report.html", htmlText(t, reporttest.Run(t, 10)))
	frame := fmt.Sprintf(`<!doctype html><meta charset="utf-8"><pre id="out"></pre><iframe src="file://%s" style="width:1100px;height:800px"></iframe><script>%s
document.querySelector("iframe").addEventListener("load", async e => {
  let s;
  try { s = JSON.stringify(await use(e.target)); } catch (err) { s = JSON.stringify(String(err.stack)); }
  document.getElementById("out").textContent = s;
});</script>`, inner, usingScript)
	out, log := browse(t, write(t, "frame.html", []byte(frame)), "--allow-file-access-from-files", "--window-size=1300,900", "--virtual-time-budget=8000", "--dump-dom")
	_, rest, _ := strings.Cut(out, `<pre id="out">`)
	text, _, _ := strings.Cut(rest, "</pre>")
	var got used
	if err := json.Unmarshal([]byte(html.UnescapeString(text)), &got); err != nil {
		t.Fatalf("%v in %.600q\n%s", err, text, log)
	}
	if strings.Contains(log, "Refused") {
		t.Errorf("the policy refused something of the page's own: %s", log)
	}
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
