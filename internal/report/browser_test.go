package report_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/report/reporttest"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
	"github.com/hopbench/hopbench/internal/testutil/browsertest"
)

// screenshotsEnv names a folder that keeps the pictures the tests take.
const screenshotsEnv = "HOPBENCH_REPORT_SCREENSHOTS"

// browse runs Chromium on a file and returns its standard output and what it
// logged. It speaks to no network.
func browse(t testing.TB, file string, args ...string) (stdout, log string) {
	t.Helper()
	program := browsertest.Program(t)
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	flags := []string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--hide-scrollbars", "--enable-logging=stderr", "--user-data-dir=" + t.TempDir()}
	cmd := exec.CommandContext(ctx, program, append(append(flags, args...), "file://"+file)...)
	cmd.WaitDelay = 5 * time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, errs.String())
	}
	return out.String(), errs.String()
}

// write puts a file into a new folder and returns its path.
func write(t testing.TB, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	testutil.OK(t, os.WriteFile(path, content, 0o666))
	return path
}

// measured is what the measuring script found in the page.
type measured struct {
	Width      int      `json:"width"`       // of the window
	Scroll     int      `json:"scroll"`      // of the document
	Wide       []string `json:"wide"`        // elements that reach beyond the window and do not scroll
	Cut        []string `json:"cut"`         // elements whose content is wider than they are
	Torn       []string `json:"torn"`        // short words of labels that are broken over lines
	Smallest   float64  `json:"smallest"`    // height of letters of the smallest text of a picture, CSS pixels
	Background string   `json:"background"`  // colour of the page
	Columns    string   `json:"shownColumn"` // which plot of costs is shown
}

// measuringScript opens every <details>, then reports sizes to the frame
// around the page.
const measuringScript = `<script>
addEventListener("load", () => {
  document.querySelectorAll("details").forEach(d => d.open = true);
  const root = document.documentElement, wide = [];
  const inScroller = e => { for (; e; e = e.parentElement) if (e.matches(".scroll, pre, .published thead, .result thead")) return true; return false; };
  for (const e of document.querySelectorAll("body *")) {
    const r = e.getBoundingClientRect();
    if (r.width > 0 && r.right > innerWidth + 1 && !inScroller(e)) wide.push(e.tagName + "." + (e.getAttribute("class") || "") + " " + e.textContent.slice(0, 30));
  }
  const cut = [];
  for (const e of document.querySelectorAll("body *")) {
    const s = getComputedStyle(e);
    if (e.clientWidth > 0 && e.scrollWidth > e.clientWidth + 1 && s.display != "inline" && s.textOverflow != "ellipsis" && !e.closest("svg, thead")) cut.push(e.tagName + "." + (e.getAttribute("class") || "") + " " + e.scrollWidth + " in " + e.clientWidth);
  }
  const torn = [];
  for (const label of document.querySelectorAll(".result .label")) for (const text of [...label.childNodes, ...[...label.children].flatMap(c => [...c.childNodes])].filter(n => n.nodeType == 3))
    for (const word of text.data.matchAll(/\S+/g)) {
      const range = document.createRange();
      range.setStart(text, word.index); range.setEnd(text, word.index + word[0].length);
      if (word[0].length < 16 && new Set([...range.getClientRects()].map(r => r.top)).size > 1) torn.push(word[0]);
    }
  let smallest = 1e9;
  for (const e of document.querySelectorAll("svg text")) if (e.getBoundingClientRect().width > 0)
    smallest = Math.min(smallest, parseFloat(getComputedStyle(e).fontSize) * e.getScreenCTM().a);
  const shown = q => getComputedStyle(document.querySelector(q)).display != "none";
  parent.postMessage(JSON.stringify({width: innerWidth, scroll: root.scrollWidth, wide: wide.slice(0, 5), cut: cut.slice(0, 5), torn: torn.slice(0, 5), smallest,
    background: getComputedStyle(document.body).backgroundColor, shownColumn: document.querySelector("#costs") ? (shown("figure.wide") ? "wide" : "") + (shown("figure.narrow") ? "narrow" : "") : ""}), "*");
});
</script>`

// measurePage lays the page out in frames of the given widths, because a
// headless window cannot be narrower than 500 pixels, and measures each. The
// page's own policy would forbid the script, so the variant leaves it out.
func measurePage(t *testing.T, page []byte, widths []int, args ...string) map[int]measured {
	t.Helper()
	variant := regexp.MustCompile(`<meta http-equiv="Content-Security-Policy"[^>]*>`).ReplaceAll(page, nil)
	variant = bytes.Replace(variant, []byte("</body>"), []byte(measuringScript+"</body>"), 1)
	inner := write(t, "page.html", variant)
	frame := `<!doctype html><meta charset="utf-8"><pre id="out"></pre><script>
addEventListener("message", e => { document.getElementById("out").textContent += e.data + "\n"; });
</script>`
	for _, width := range widths {
		frame += fmt.Sprintf(`<iframe src="file://%s" style="width:%dpx;height:800px;border:0"></iframe>`, inner, width)
	}
	out, _ := browse(t, write(t, "frame.html", []byte(frame)), append(args, "--window-size=1700,900", "--virtual-time-budget=5000", "--dump-dom")...)
	_, rest, _ := strings.Cut(out, `<pre id="out">`)
	text, _, _ := strings.Cut(rest, "</pre>")
	found := map[int]measured{}
	for l := range strings.Lines(html.UnescapeString(text)) {
		var m measured
		if err := json.Unmarshal([]byte(l), &m); err != nil {
			t.Fatalf("the page's report of its size: %v in %q", err, l)
		}
		found[m.Width] = m
	}
	for _, width := range widths {
		if _, ok := found[width]; !ok {
			t.Fatalf("the page did not report its size at a width of %d:\n%.2000s", width, out)
		}
	}
	return found
}

func TestBrowserLayout(t *testing.T) {
	browsertest.Program(t)
	long := reporttest.Run(t, 6)
	for i := range long.Paths {
		long.Paths[i].Title = strings.Repeat("averylongnamewithoutanyspace", 3) + long.Paths[i].Name
		long.Paths[i].Hops[0].Name = strings.Repeat("peering", 20)
	}
	long.Experiment.Title = strings.Repeat("Unbreakable", 20)
	long.Environment["sysctl net.ipv4."+strings.Repeat("very_long", 15)] = strings.Repeat("0123456789", 20)
	pages := map[string]*result.Result{"fixture": reporttest.Run(t, 10), "long names": long, "empty": {}, "watched hops": reporttest.Watched(t)}
	for name, r := range pages {
		t.Run(name, func(t *testing.T) {
			page := bytes.ReplaceAll(htmlText(t, r), []byte(`class="verdict v-costs">costs`), []byte(`class="verdict v-open">not resolved, needs ≈ 120 to 250 blocks: the longest of all verdicts`))
			for width, m := range measurePage(t, page, []int{360, 390, 700, 768, 1024, 1100, 1280, 1600}) {
				if len(m.Torn) > 0 {
					t.Errorf("in a window of %d, broken over lines are %q", m.Width, m.Torn)
				}
				if m.Scroll > m.Width || len(m.Wide) > 0 {
					t.Errorf("the page is %d wide in a window of %d; beyond its edge are %q", m.Scroll, m.Width, m.Wide)
				}
				if len(m.Cut) > 0 && width >= 390 {
					t.Errorf("in a window of %d, wider than their containers are %q", m.Width, m.Cut)
				}
				if name == "fixture" && m.Smallest < 8.5 {
					t.Errorf("width %d: the smallest text of a picture is %.1f pixels high", width, m.Smallest)
				}
				if want := map[bool]string{true: "narrow", false: "wide"}[width < 672]; name == "fixture" && m.Columns != want {
					t.Errorf("width %d: the plot of costs shown is %q, not %q", width, m.Columns, want)
				}
			}
		})
	}
}

func TestBrowserSchemes(t *testing.T) {
	browsertest.Program(t)
	page := htmlText(t, reporttest.Run(t, 6))
	dark := measurePage(t, page, []int{900}, "--blink-settings=preferredColorScheme=0")[900]
	light := measurePage(t, page, []int{900}, "--blink-settings=preferredColorScheme=1")[900]
	if light.Background != "rgb(255, 255, 255)" || dark.Background != "rgb(15, 19, 23)" {
		t.Errorf("the page is %s in light and %s in dark", light.Background, dark.Background)
	}
}

// TestBrowserIsQuiet opens the page as it is: its policy must not block
// anything of its own, and nothing may be logged to the console.
func TestBrowserIsQuiet(t *testing.T) {
	browsertest.Program(t)
	out, log := browse(t, write(t, "report.html", htmlText(t, reporttest.Run(t, 6))), "--dump-dom")
	if !strings.Contains(out, "How to reproduce") {
		t.Errorf("the page was not read to its end: %.500s", out)
	}
	for l := range strings.Lines(log) {
		if strings.Contains(l, "CONSOLE") {
			t.Errorf("the browser logged %s", strings.TrimSpace(l))
		}
	}
}

// TestBrowserScreenshots takes the page's picture in light, in dark and as
// narrow as a phone, and the picture for the README on a dark ground. It holds
// that something is drawn; a person looks at the rest in screenshotsEnv.
func TestBrowserScreenshots(t *testing.T) {
	browsertest.Program(t)
	r := reporttest.Run(t, 10)
	page := write(t, "report.html", htmlText(t, r))
	frame := write(t, "phone.html", fmt.Appendf(nil, `<!doctype html><body style="margin:0"><iframe src="file://%s" style="border:0;width:390px;height:4000px"></iframe>`, page))
	picture := write(t, "picture.html", fmt.Appendf(nil, `<!doctype html><body style="margin:20px;background:#222"><img width="900" alt="" src="file://%s">`, write(t, "picture.svg", pictureText(t, r))))
	shots := []struct {
		name, file, size string
		args             []string
	}{
		{"light", page, "1100,2400", []string{"--blink-settings=preferredColorScheme=1"}},
		{"dark", page, "1100,2400", []string{"--blink-settings=preferredColorScheme=0"}},
		{"phone", frame, "500,4000", nil},
		{"picture", picture, "940,640", nil},
	}
	for _, s := range shots {
		t.Run(s.name, func(t *testing.T) {
			folder := os.Getenv(screenshotsEnv)
			if folder == "" {
				folder = t.TempDir()
			}
			file := filepath.Join(folder, s.name+".png")
			browse(t, s.file, append(s.args, "--window-size="+s.size, "--screenshot="+file)...)
			if n := coloursIn(t, file); n < 30 {
				t.Errorf("the picture has %d colours: nothing was drawn", n)
			}
		})
	}
}

// What is folded on the screen is on paper, too.
func TestBrowserPrintsWhatIsFolded(t *testing.T) {
	browsertest.Program(t)
	pdftotext, err := exec.LookPath("pdftotext")
	testutil.Need(t, err == nil, "pdftotext (Debian package poppler-utils)")
	file := filepath.Join(t.TempDir(), "report.pdf")
	browse(t, write(t, "report.html", htmlText(t, reporttest.Watched(t))), "--no-pdf-header-footer", "--print-to-pdf="+file)
	text, err := exec.Command(pdftotext, "-layout", file, "-").Output()
	testutil.OK(t, err)
	for _, want := range []string{"What each hop counted", "headers are taken off every packet", "CPU busy, %"} {
		if !strings.Contains(strings.Join(strings.Fields(string(text)), " "), want) {
			t.Errorf("the printed page lacks %q", want)
		}
	}
	words := strings.Fields(string(text))
	for _, whole := range []string{"retransmits", "appliances", "goodput"} {
		broken := slices.IndexFunc(words, func(w string) bool {
			return len(w) > 4 && len(w) < len(whole) && strings.HasPrefix(whole, w) && w+"s" != whole
		})
		if !slices.Contains(words, whole) || broken >= 0 {
			t.Errorf("%q is not whole in %q", whole, words[max(broken, 0):min(max(broken, 0)+8, len(words))])
		}
	}
}

// coloursIn counts the colours of a picture in a file.
func coloursIn(t *testing.T, file string) int {
	t.Helper()
	b, err := os.ReadFile(file)
	testutil.OK(t, err)
	return browsertest.Colours(t, b)
}
