package ui

import (
	_ "embed"
	"net/http"
	"strings"

	"github.com/hopbench/hopbench/internal/report/html"
)

// uPlot 1.6.32 draws the charts: its released files, unchanged, under the MIT licence
// (assets/uPlot.LICENSE).
//
//go:embed assets/uPlot.iife.min.js
var uplotJS string

//go:embed assets/uPlot.min.css
var uplotCSS string

//go:embed assets/uPlot.LICENSE
var uplotLicence string

//go:embed assets/live.js
var liveJS string

//go:embed assets/live.css
var liveCSS string

// asset is a file of the pages.
type asset struct {
	name, kind string
	text       func() string
}

func fixed(text string) func() string { return func() string { return text } }

var assets = []asset{
	{"style.css", "text/css", func() string { return html.Styles() + uplotCSS + liveCSS }},
	{"page.js", "text/javascript", html.Script},
	{"live.js", "text/javascript", fixed(liveJS)},
	{"uplot.js", "text/javascript", func() string { return "/*! uPlot 1.6.32\n" + uplotLicence + "*/\n" + uplotJS }},
}

func (a asset) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", a.kind+"; charset=utf-8")
	http.ServeContent(w, r, a.name, noTime, strings.NewReader(a.text()))
}
