package figure

import (
	"fmt"
	"io"
	"strings"

	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

// pictureStyle colours a picture that stands alone. It brings its own ground,
// so that it reads on a light page and on a dark one, and is the light half
// of the page's palette: an image cannot know the page that it is put into.
const pictureStyle = `text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","Liberation Sans",Arial,sans-serif;font-variant-numeric:tabular-nums}
.ground{fill:#fff;stroke:#c9d1d9}.title{font-size:17px;font-weight:650;fill:#1a1f25}.head{font-weight:600;fill:#1a1f25}.value{fill:#1a1f25}.name{font-weight:600}.tick,.axis{fill:#56606b}
.grid{stroke:#e3e8ed}.one{stroke:#1a1f25}.band{fill:#dfe9dc}.bar{stroke-width:3}.cap{stroke-width:2}
.s0{stroke:#4c5763}.s1{stroke:#0062a3}.s2{stroke:#b24700}.s3{stroke:#00704e}.s4{stroke:#96346f}.s5{stroke:#7d5a00}.s6{stroke:#00707f}
.f0{fill:#4c5763}.f1{fill:#0062a3}.f2{fill:#b24700}.f3{fill:#00704e}.f4{fill:#96346f}.f5{fill:#7d5a00}.f6{fill:#00707f}`

// Picture writes the plot of costs as an SVG file of its own, with the title
// of the run: the result at a glance, for a README or a slide.
func Picture(w io.Writer, r *result.Result) error {
	m := report.New(r)
	rows := costRows(m)
	l := WideCosts()
	l.indent, l.left, l.right, l.top, l.width = 24, 196, 600, 78, 900
	height := costHeight(rows, l) + 26
	if len(rows) == 0 {
		height = 120
	}
	s := newSVG("picture", l.width, height, m.Title, costDescription(m, rows))
	s.b.WriteString("<style>" + pictureStyle + "</style>")
	s.rect(0.5, 0.5, l.width-1, height-1, "ground", "")
	s.text(l.indent, 36, "start", "title", fit(m.Title, (l.width-2*l.indent)*0.7))
	if len(rows) == 0 {
		s.text(l.indent, 72, "start", "axis", fit(m.Headline, l.width-2*l.indent))
		return typeset.Flush(w, string(s.end())+"\n", "picture")
	}
	s.text(l.indent, 58, "start", "axis", "cost against the baseline, estimate and 95"+words.NBSP+"% interval · "+quantity.Count(r.Experiment.Blocks, "block")+" · "+words.TrialsOf(r))
	drawCosts(m, s, rows, l)
	note := ""
	if strings.Contains(s.b.String(), `class="band"`) {
		note = "Shaded: too small to matter."
	}
	if m.ScaledBy != "" {
		note += fmt.Sprintf(" A model at 1:%s; lab figures are relative.", m.ScaledBy)
	}
	s.text(l.indent, height-18, "start", "axis", note)
	return typeset.Flush(w, string(s.end())+"\n", "picture")
}
