package html

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"sync"

	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/result"
)

//go:embed index.html
var indexHTML string

var indexPage = sync.OnceValue(func() *template.Template {
	return parsed(indexHTML, publishedHTML)
})

// WriteIndex writes an index as one self-contained page that links to the
// reports below its folder.
func WriteIndex(w io.Writer, x *result.Index) error {
	var b strings.Builder
	d := struct {
		report.Index
	}{report.NewIndex(x)}
	if err := indexPage().Execute(&b, d); err != nil {
		return fmt.Errorf("render HTML index: %w", err)
	}
	return typeset.Flush(w, b.String(), "HTML index")
}
