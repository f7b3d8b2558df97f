package report_test

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/hopbench/hopbench/internal/measurement"
	pages "github.com/hopbench/hopbench/internal/report/html"
	"github.com/hopbench/hopbench/internal/report/reporttest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// voidElements have no end tag (HTML Living Standard, 13.1.2).
var voidElements = []string{"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}

// checkPage reads a page token by token: every element is closed in order,
// ids are unique, references to ids resolve, and nothing is run or fetched.
func checkPage(page []byte) error {
	page = withoutOwnScript(page)
	z := html.NewTokenizer(bytes.NewReader(page))
	var open []string
	ids, wanted := map[string]bool{}, map[string]bool{}
	for {
		switch z.Next() {
		case html.ErrorToken:
			if len(open) > 0 {
				return fmt.Errorf("never closed: %v", open)
			}
			for id := range wanted {
				if !ids[id] {
					return fmt.Errorf("nothing has the id %q", id)
				}
			}
			return nil
		case html.StartTagToken:
			token := z.Token()
			if err := checkElement(token, ids, wanted); err != nil {
				return err
			}
			if !slices.Contains(voidElements, token.Data) {
				open = append(open, token.Data)
			}
		case html.SelfClosingTagToken:
			if err := checkElement(z.Token(), ids, wanted); err != nil {
				return err
			}
		case html.EndTagToken:
			name := z.Token().Data
			if len(open) == 0 || open[len(open)-1] != name {
				return fmt.Errorf("</%s> closes %v", name, open)
			}
			open = open[:len(open)-1]
		}
	}
}

// withoutOwnScript takes the script off a page that all pages have, once: any other is refused.
func withoutOwnScript(page []byte) []byte {
	return bytes.Replace(page, []byte("<script>"+pages.Script()+"furnish(document);\n</script>"), nil, 1)
}

// leadsInside says that a link does nothing but lead to a section of its page.
func leadsInside(link html.Token) bool {
	return len(link.Attr) == 1 && link.Attr[0].Key == "href" && regexp.MustCompile(`^#[a-z]+$`).MatchString(link.Attr[0].Val)
}

// checkElement refuses what runs or fetches, and gathers ids.
func checkElement(token html.Token, ids, wanted map[string]bool) error {
	if token.Data == "a" && leadsInside(token) {
		return nil
	}
	if slices.Contains([]string{"script", "img", "iframe", "link", "object", "embed", "base", "form", "image", "use", "foreignobject", "a"}, token.Data) {
		return fmt.Errorf("the page holds a <%s>", token.Data)
	}
	for _, a := range token.Attr {
		switch {
		case strings.HasPrefix(a.Key, "on"), slices.Contains([]string{"src", "href", "style", "srcset", "action"}, a.Key):
			return fmt.Errorf("<%s> has the attribute %s", token.Data, a.Key)
		case a.Key == "id":
			if ids[a.Val] {
				return fmt.Errorf("two elements have the id %q", a.Val)
			}
			ids[a.Val] = true
		case a.Key == "aria-labelledby":
			for _, id := range strings.Fields(a.Val) {
				wanted[id] = true
			}
		}
	}
	return nil
}

func TestHTMLIsWellFormedAndAlone(t *testing.T) {
	page := htmlText(t, reporttest.Run(t, 10))
	if err := checkPage(page); err != nil {
		t.Error(err)
	}
	if _, err := html.Parse(bytes.NewReader(page)); err != nil {
		t.Error(err)
	}
	// The only address is the name of SVG's namespace, which nothing fetches.
	for _, address := range regexp.MustCompile(`[a-z]+://[^\s"'<]*|url\([^)]*\)|@import`).FindAllString(string(withoutOwnScript(page)), -1) {
		if address != "http://www.w3.org/2000/svg" {
			t.Errorf("the page refers to %s", address)
		}
	}
	if !strings.Contains(string(page), `http-equiv="Content-Security-Policy" content="default-src &#39;none&#39;`) &&
		!strings.Contains(string(page), `http-equiv="Content-Security-Policy" content="default-src 'none'`) {
		t.Error("the page has no content security policy")
	}
}

// TestHTMLSections holds the order of the sections.
func TestHTMLSections(t *testing.T) {
	page := string(htmlText(t, reporttest.Run(t, 10)))
	at := 0
	for _, id := range []string{"verdict", "table", "costs", "attribution", "paths", "time", "order", "latency", "published", "notes", "environment", "reproduce"} {
		i := strings.Index(page, `<section id="`+id+`"`)
		if i < at {
			t.Errorf("section %s is missing or out of order", id)
		}
		at = max(at, i)
	}
	for _, want := range []string{
		"9 of 10 blocks",                                         // the hole
		"destination&#39;s CPUs were 99",                         // its reason
		"hopbench run routing-appliance --blocks 10 --seed 4242", // how to repeat it
		"at 1:10", "published", "10.0.0.2 → 10.0.1.2 → 10.0.9.2",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

func TestHTMLFragmentGolden(t *testing.T) {
	page := string(htmlText(t, reporttest.Run(t, 10)))
	for _, id := range []string{"verdict", "table", "costs", "attribution", "paths", "published"} {
		start := strings.Index(page, `<section id="`+id+`"`)
		if start < 0 {
			t.Fatalf("no section %s", id)
		}
		end := start + strings.Index(page[start:], "</section>") + len("</section>\n")
		reporttest.Golden(t, "section-"+id+".html", []byte(page[start:end]))
	}
}

// A path inside a tunnel is proved by what was seen inside of it and below it.
func TestHTMLShowsHopsBelowATunnel(t *testing.T) {
	r := reporttest.Run(t, 1)
	r.Paths[1].Tunnel = "vxlan, id 7"
	for i := range r.Trials {
		if f := r.Trials[i].Fingerprint; r.Trials[i].Path == r.Paths[1].Name {
			f.Hops, f.OuterHops = []measurement.TraceHop{{TTL: 1, Address: "10.255.1.2", Reached: true}}, []measurement.TraceHop{{TTL: 1}, {TTL: 2, Address: "10.1.0.2"}, {TTL: 3, Address: "10.1.9.2", Reached: true}}
		}
	}
	page := string(htmlText(t, r))
	start := strings.Index(page, `<section id="paths"`)
	end := start + strings.Index(page[start:], "</section>") + len("</section>\n")
	reporttest.Golden(t, "section-paths-tunnel.html", []byte(page[start:end]))
	for i := range r.Trials {
		if f := r.Trials[i].Fingerprint; f != nil {
			f.Hops = nil // as where the trace inside failed
		}
	}
	if page = string(htmlText(t, r)); !strings.Contains(page, "saw * → 10.1.0.2 → 10.1.9.2 below the tunnel") {
		t.Error("without hops inside, those below the tunnel are not shown")
	}
}

// TestHTMLSize writes the page where HOPBENCH_REPORT_OUT says, to be looked
// at, and holds its size under the limit.
func TestHTMLSize(t *testing.T) {
	page := htmlText(t, reporttest.Run(t, 10))
	if out := os.Getenv("HOPBENCH_REPORT_OUT"); out != "" {
		testutil.OK(t, os.WriteFile(out, page, 0o666))
	}
	const limit = 3 << 20
	if len(page) > limit {
		t.Errorf("a page of 120 trials has %d bytes, more than %d", len(page), limit)
	}
}
