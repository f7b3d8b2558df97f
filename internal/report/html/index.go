package html

import (
	_ "embed"
	"html/template"
	"io"
	"sync"

	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/result"
)

//go:embed index.html
var indexHTML string

var indexPage = sync.OnceValue(func() *template.Template { return parsed(indexHTML, publishedHTML) })

// WriteIndex writes an index as one self-contained page that links to the
// reports below its folder.
func WriteIndex(w io.Writer, x *result.Index) error {
	return render(w, indexPage(), "page", report.NewIndex(x), "HTML index")
}
