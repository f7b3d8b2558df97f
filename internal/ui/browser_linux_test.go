package ui

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/report/reporttest"
	"github.com/hopbench/hopbench/internal/testutil"
	"github.com/hopbench/hopbench/internal/testutil/browsertest"
)

// beyond are the elements that reach beyond the window and do not scroll.
const beyond = `(() => {
  const inScroller = e => { for (; e; e = e.parentElement) if (e.matches(".scroll, pre, .published thead, .result thead, .log, .u-wrap")) return true; return false; };
  const out = [];
  for (const e of document.querySelectorAll("body *")) {
    const r = e.getBoundingClientRect();
    if (r.width > 0 && r.right > innerWidth + 1 && !inScroller(e)) out.push(e.tagName + "." + (e.getAttribute("class") || "") + " " + e.textContent.slice(0, 40));
  }
  return out.slice(0, 5);
})()`

// The page of a run with 30 pairs goes on while it is looked at, wide and narrow, light and
// dark, and has the report when the run is over, also after the program has ended.
func TestBrowserLive(t *testing.T) {
	b := browsertest.OpenTab(t)
	for _, shot := range []struct {
		name, scheme  string
		width, height int
	}{{"light", "light", 1100, 2000}, {"dark", "dark", 1100, 2000}, {"phone", "light", 390, 3400}} {
		t.Run(shot.name, func(t *testing.T) {
			b.For(t)
			s := event.NewStream()
			page := serve(t, s)
			begun(s)
			seconds(s, 1, 25, 30)
			b.Show(shot.width, shot.height, shot.scheme)
			b.Open(page.URL())
			b.Until(`document.querySelectorAll(".pair canvas").length == 30`)
			b.Until(`document.querySelector("#live-now dd").textContent.includes("Gbit/s")`)
			seconds(s, 25, 40, 30)
			b.Until(`document.querySelector("#live-hops").textContent.includes("195")`) // the last second's
			var fleet string
			const want = "machines 59, pairs ready 29, pairs running 29, pairs lost 1, seats waiting 0, clocks within 80.0 µs, disk behind 4s, blocks made coarser 17"
			if b.Eval(`[...document.querySelectorAll("#live-fleet dl div")].map(e => e.children[0].textContent + " " + e.children[1].textContent.replace("\u00a0", " ")).join(", ")`, &fleet); fleet != want {
				t.Errorf("the fleet is %q", fleet)
			}
			var wide []string
			if b.Eval(beyond, &wide); len(wide) > 0 {
				t.Errorf("beyond the edge are %q", wide)
			}
			if n := b.Picture("live-" + shot.name); n < 30 {
				t.Errorf("the picture has %d colours: nothing was drawn", n)
			}
			over(t, s, page)
			b.Until(`document.querySelector("#live-report #verdict")`)
			if shot.name == "dark" { // another run follows, of one pair
				begun(s)
				b.Until(`document.querySelectorAll(".pair").length == 0 && !document.querySelector("#live-report #verdict")`)
				seconds(s, 1, 25, 1)
				b.Until(`document.querySelectorAll(".pair canvas").length == 1`)
				over(t, s, page)
				b.Until(`document.querySelector("#live-report #verdict")`)
			}
			if b.Eval(beyond, &wide); len(wide) > 0 {
				t.Errorf("with the report, beyond the edge are %q", wide)
			}
			if n := b.Picture("over-" + shot.name); n < 30 {
				t.Errorf("the picture has %d colours: nothing was drawn", n)
			}
			s.Close()
			b.Until(`document.documentElement.dataset.over == "true"`)
			if err := page.Close(); err != nil {
				t.Error(err)
			}
			var title string
			if b.Eval("document.title", &title); title != "What a firewall of 20 instances carries · hopbench" {
				t.Errorf("the title is %q", title)
			}
			b.Quiet(page.URL())
		})
	}
}

// A trial of a second has one value, to which no line leads.
func TestBrowserTrialsOfASecond(t *testing.T) {
	b := browsertest.OpenTab(t)
	s := event.NewStream()
	page := serve(t, s)
	begun(s)
	for i := range 8 {
		trial := &event.PlannedTrial{ID: fmt.Sprint("trial-", i), Block: i, Path: "peered", Test: "flows-1", Kind: measurement.TCP, Expected: 1}
		s.Publish(event.Event{Code: event.Measured, Time: time.Date(2026, 11, 23, 12, 0, 2*i, 0, time.UTC), Trial: trial, Second: &event.Second{At: 1, Throughput: new(1e9 + 1e8*float64(i%3)), RTT: 1e-3}})
	}
	b.Show(900, 800, "light")
	b.Open(page.URL())
	b.Until(`document.querySelector("#live-rate canvas") && document.querySelector("#live-rtt canvas")`)
	// The lines of the grid are grey.
	const coloured = `new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(() => {
	  const c = document.querySelector("#live-rate canvas"), p = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
	  let n = 0;
	  for (let i = 0; i < p.length; i += 4) if (p[i + 3] > 200 && Math.max(p[i], p[i + 1], p[i + 2]) - Math.min(p[i], p[i + 1], p[i + 2]) > 60) n++;
	  drawn(n);
	})))`
	var n int
	if b.Eval(coloured, &n); n < 8*9 {
		t.Errorf("of 8 values %d pixels are drawn", n)
	}
	b.Picture("trials-of-a-second")
}

// A page whose run is killed says so.
func TestBrowserRunIsKilled(t *testing.T) {
	b := browsertest.OpenTab(t)
	s := event.NewStream()
	page := serve(t, s)
	begun(s)
	seconds(s, 1, 5, 2)
	b.Show(900, 800, "light")
	b.Open(page.URL())
	b.Until(`document.querySelectorAll(".pair canvas").length == 2`)
	page.http.Close() // as if the process had gone
	b.Until(`!document.querySelector("#live-connection").hidden`)
	var text string
	if b.Eval(`document.querySelector("#live-connection").textContent`, &text); text == "" {
		t.Error("it is not said that the run is gone")
	}
	b.Picture("killed")
}

// Without a script the page has the run as it is.
func TestBrowserWithoutScript(t *testing.T) {
	b := browsertest.OpenTab(t)
	s := event.NewStream()
	page := serve(t, s)
	begun(s)
	b.Call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	b.Open(page.URL())
	b.Until(fmt.Sprintf(`document.querySelector("h1")?.textContent == %q`, "What a firewall of 20 instances carries"))
	b.Until(`document.querySelectorAll("#live-log li").length > 5`)
}

// Past runs are listed, opened and compared, also on a phone.
func TestBrowserLibrary(t *testing.T) {
	b := browsertest.OpenTab(t)
	page, err := Listen(t.Context(), Options{Address: "127.0.0.1:0", Library: shelved{run: reporttest.Run(t, 4)}})
	testutil.OK(t, err)
	defer func() { testutil.OK(t, page.Close()) }()
	for _, width := range []int{1000, 390} {
		b.Show(width, 700, "light")
		for _, step := range []struct{ do, until string }{
			{"", `document.querySelector("a[href='run/a1']")`},
			{`document.querySelector("a[href='run/a1']").click()`, `document.querySelector("#verdict")`},
			{`history.back()`, `document.querySelector("input[name=reference]")`},
			{`(document.querySelector("input[name=reference]").click(), document.querySelector("button").click())`, `document.body.innerText.includes("choose two runs")`},
		} {
			if step.do == "" {
				b.Open(page.URL())
			} else {
				b.Call("Runtime.evaluate", map[string]any{"expression": "setTimeout(() => " + step.do + ")"}, nil)
			}
			b.Until(step.until)
			var wide []string
			if b.Eval(beyond, &wide); len(wide) > 0 {
				t.Errorf("%d wide, after %s, beyond the edge are %q", width, step.do, wide)
			}
		}
		b.Open(page.URL())
		b.Until(`document.querySelector(".library tbody td")`)
		var lines int
		// A line that begins within the time has a rectangle of its own.
		const ofTheTime = `(() => {
		  const at = document.querySelector(".library tbody td").firstChild, time = document.createRange();
		  time.setStart(at, at.length - "15:04:05".length); time.setEnd(at, at.length);
		  return time.getClientRects().length;
		})()`
		if b.Eval(ofTheTime, &lines); lines != 1 {
			t.Errorf("%d wide, the time of a run is broken into %d lines", width, lines)
		}
		b.Open(page.URL() + "compare?reference=a1&run=b2")
		b.Until(`document.querySelector("h1")?.textContent == "routing"`)
	}
	for _, url := range b.Asked() {
		// A report has no icon, for which a browser asks by itself.
		if !strings.HasPrefix(url, page.URL()) && !strings.HasPrefix(url, "data:") && url != "http://"+page.listener.Addr().String()+"/favicon.ico" {
			t.Errorf("a page asked for %s", url)
		}
	}
}
