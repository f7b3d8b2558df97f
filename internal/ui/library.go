package ui

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"html/template"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/report/html"
	"github.com/hopbench/hopbench/internal/result"
)

// Library has past runs. Its methods may be called at the same time.
type Library interface {
	// Runs are all there are, in the order in which they are shown.
	Runs(ctx context.Context) ([]Run, error)
	// Result is that of a run by its identifier, Comparison of the second one with the
	// first. What there is not is ErrNoRun.
	Result(ctx context.Context, id string) (*result.Result, error)
	Comparison(ctx context.Context, reference, id string) (*result.Comparison, error)
}

// ErrNoRun says that there is no such run.
var ErrNoRun = errors.New("there is no such run")

// Run is a line of a library.
type Run struct {
	// ID is of letters and digits, and the same as long as the run is where it is.
	ID         string
	Folder     string
	Experiment string
	Started    time.Time
	Trials     int
	Planned    int
	// Error is why it cannot be read, none if it can.
	Error string
}

//go:embed assets/library.html
var libraryHTML string

var libraryPage = sync.OnceValue(func() *template.Template { return template.Must(template.New("library").Parse(libraryHTML)) })

// shelf is the pages of a library.
type shelf struct {
	library Library
	busy    chan struct{} // one run is analysed at a time
}

// bookRow is a run as the list shows it.
type bookRow struct {
	ID, Folder, Experiment, Started, Error string
	Trials, Planned                        int
}

func (s *shelf) list(w http.ResponseWriter, r *http.Request) {
	runs, err := s.library.Runs(r.Context())
	if err != nil {
		problem(w, err)
		return
	}
	var rows []bookRow
	for _, run := range runs {
		row := bookRow{ID: run.ID, Folder: clean(run.Folder), Experiment: clean(run.Experiment), Error: clean(run.Error), Trials: run.Trials, Planned: run.Planned}
		if !run.Started.IsZero() {
			row.Started = run.Started.Local().Format(time.DateTime)
		}
		rows = append(rows, row)
	}
	send(w, func(w io.Writer) error { return libraryPage().Execute(w, rows) })
}

func (s *shelf) run(w http.ResponseWriter, r *http.Request) {
	s.analysed(w, r, func() error {
		run, err := s.library.Result(r.Context(), r.PathValue("id"))
		if err == nil {
			send(w, func(w io.Writer) error { return html.Write(w, run) })
		}
		return err
	})
}

func (s *shelf) compare(w http.ResponseWriter, r *http.Request) {
	reference, id := r.FormValue("reference"), r.FormValue("run")
	if reference == "" || id == "" || reference == id {
		http.Error(w, "choose two runs: one to compare, and one to compare it with", http.StatusBadRequest)
		return
	}
	s.analysed(w, r, func() error {
		c, err := s.library.Comparison(r.Context(), reference, id)
		if err == nil {
			send(w, func(w io.Writer) error { return html.WriteComparison(w, c) })
		}
		return err
	})
}

// analysed does what takes long: one at a time, and not for who has gone meanwhile.
func (s *shelf) analysed(w http.ResponseWriter, r *http.Request, do func() error) {
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	case <-r.Context().Done():
		return
	}
	if err := do(); err != nil {
		problem(w, err)
	}
}

func problem(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	if errors.Is(err, ErrNoRun) {
		status = http.StatusNotFound
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(patience)) // as in send
	http.Error(w, clean(err.Error()), status)
}

// send writes a page as a whole, or why there is none.
func send(w http.ResponseWriter, write func(io.Writer) error) {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		problem(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(patience)) // to analyse took its time
	_, _ = w.Write(b.Bytes())                                                    // who is gone needs none
}
