package ui

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/report/html"
	"github.com/hopbench/hopbench/internal/result"
)

//go:embed assets/live.html
var liveHTML string

var livePage = sync.OnceValue(func() *template.Template { return template.Must(template.New("live").Parse(liveHTML)) })

// noTime is the time of what is never taken from a cache.
var noTime time.Time

const (
	// viewEvery is how often the parts of an open page that the server renders are sent
	// again: rendering takes CPU time from what is measured.
	viewEvery = time.Second
	// aliveEvery is how often a page hears that the run is still there.
	aliveEvery = 5 * time.Second
	// mostPairs is how many pairs a page draws.
	mostPairs = 64
)

// live is the page of a run that goes on.
type live struct {
	stream   *event.Stream
	patience time.Duration // see there; shorter in tests

	mu sync.Mutex
	// parts are the newest, of the event of that number.
	parts  []byte
	number int64
	// report is that of the run that ended last, rendered when a page asks for it.
	report func() ([]byte, error)
}

func newLive(stream *event.Stream) *live {
	return &live{stream: stream, patience: patience, number: -1}
}

// Report has open pages show the report of the run that is about to end, nil if there is
// none. The server needs a stream.
func (s *Server) Report(r *result.Result) {
	s.live.mu.Lock()
	defer s.live.mu.Unlock()
	s.live.report = nil
	if r == nil {
		return
	}
	s.live.report = sync.OnceValues(func() ([]byte, error) {
		var b bytes.Buffer
		err := html.Fragment(&b, r)
		return b.Bytes(), err
	})
}

func (l *live) serveReport(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	report := l.report
	l.mu.Unlock()
	if report == nil {
		http.Error(w, "no run is over yet", http.StatusNotFound)
		return
	}
	text, err := report()
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(l.patience)) // to render took its time
	if err != nil {
		http.Error(w, "the report cannot be shown here; it is in the run's folder", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	http.ServeContent(w, r, "report", noTime, bytes.NewReader(text))
}

// page is the whole page as it is now; what follows comes as events.
func (l *live) page(w http.ResponseWriter, _ *http.Request) {
	var b bytes.Buffer
	l.mu.Lock()
	view := l.view()
	l.mu.Unlock()
	if err := livePage().Execute(&b, view); err != nil {
		http.Error(w, "the page cannot be shown: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes()) // who is gone needs none
}

// view is where the run is. The caller holds the lock.
func (l *live) view() view {
	state := l.stream.State()
	v := newView(state)
	v.Report = state.End != nil && l.report != nil
	return v
}

// render is the parts of the page that the server renders, as JSON by the identifiers of
// their elements. Pages that ask at the same time share one rendering.
func (l *live) render() ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.number == l.stream.State().Number {
		return l.parts, nil
	}
	view := l.view()
	message := struct {
		Parts  map[string]string `json:"parts"`
		Report bool              `json:"report"`
	}{map[string]string{}, view.Report}
	for _, name := range []string{"head", "now", "fleet", "cells", "hops", "log"} {
		var b bytes.Buffer
		if err := livePage().ExecuteTemplate(&b, name, view); err != nil {
			return nil, err
		}
		message.Parts[name] = b.String()
	}
	var err error
	if l.parts, err = json.Marshal(message); err != nil {
		return nil, err
	}
	l.number = view.Number
	return l.parts, nil
}

// secondMessage is a second as charts draw it. Names are short, since a run has many.
type secondMessage struct {
	Time       float64       `json:"t"` // Unix, seconds
	Trial      string        `json:"trial"`
	Throughput float64       `json:"rate"`
	RTT        float64       `json:"rtt"`
	Pairs      []pairMessage `json:"pairs,omitempty"`
	Further    int           `json:"further,omitempty"` // pairs that are not drawn
}

type pairMessage struct {
	Name       string  `json:"name"`
	Throughput float64 `json:"rate"`
	RTT        float64 `json:"rtt"`
}

func newSecond(e event.Event) secondMessage {
	m := secondMessage{Time: float64(e.Time.UnixMilli()) / 1e3, Trial: e.Trial.ID, Throughput: e.Second.Rate(), RTT: float64(e.Second.RTT)}
	for i, p := range e.Second.Pairs {
		if i == mostPairs {
			m.Further = len(e.Second.Pairs) - mostPairs
			break
		}
		m.Pairs = append(m.Pairs, pairMessage{clean(p.Source) + " → " + clean(p.Destination), p.Rate(), float64(p.RTT)})
	}
	return m
}

// sender writes server-sent events (HTML, section 9.2).
type sender struct {
	w  http.ResponseWriter
	rc *http.ResponseController
	b  bytes.Buffer

	patience time.Duration
}

// add adds an event. JSON has no line breaks, which would end it.
func (s *sender) add(name string, number int64, data []byte) {
	if number > 0 {
		fmt.Fprintf(&s.b, "id: %d\n", number)
	}
	fmt.Fprintf(&s.b, "event: %s\ndata: %s\n\n", name, data)
}

// flush sends what was added, to somebody who reads it in time.
func (s *sender) flush() error {
	if err := s.rc.SetWriteDeadline(time.Now().Add(s.patience)); err != nil {
		return err
	}
	if _, err := s.w.Write(s.b.Bytes()); err != nil {
		return err
	}
	s.b.Reset()
	return s.rc.Flush()
}

// events sends what is published, from after the event that a page had last, until the
// page or the stream is closed.
func (l *live) events(w http.ResponseWriter, r *http.Request) {
	after, _ := strconv.ParseInt(r.Header.Get("Last-Event-ID"), 10, 64) // 0: from the first that is kept
	w.Header().Set("Content-Type", "text/event-stream")
	s := &sender{w: w, rc: http.NewResponseController(w), patience: l.patience}
	s.b.WriteString("retry: 2000\n\n")
	err := l.follow(r.Context(), l.stream.Read(after), s)
	if !errors.Is(err, io.EOF) {
		return // it is gone, or does not read
	}
	// The page closes this when it has fetched the report.
	if s.add("over", 0, []byte("{}")); s.flush() == nil {
		select {
		case <-r.Context().Done():
		case <-time.After(l.patience):
		}
	}
}

// follow sends events until one of reader, page and connection has ended; io.EOF is that
// of the stream, once everything is sent.
func (l *live) follow(ctx context.Context, reader *event.Reader, s *sender) error {
	var viewed time.Time
	var last int64 // sent, and shown in the view
	var shown int64 = -1
	for {
		wait := aliveEvery
		if last > shown {
			wait = viewEvery - time.Since(viewed)
		}
		limited, cancel := context.WithTimeout(ctx, max(wait, 0))
		events, err := reader.Next(limited)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		ended := errors.Is(err, io.EOF)
		for _, e := range events {
			last = e.Number
			switch e.Code {
			case event.Measured:
				data, err := json.Marshal(newSecond(e))
				if err != nil {
					return err
				}
				s.add("second", e.Number, data)
			case event.RunStarted:
				s.add("run", e.Number, []byte("{}"))
			case event.Lost:
				s.add("lost", e.Number, []byte(strconv.FormatInt(e.LostEvents, 10)))
			case event.RunEnded:
				viewed = time.Time{} // at once
			}
		}
		if (last > shown || shown < 0) && (ended || time.Since(viewed) >= viewEvery) {
			parts, err := l.render()
			if err != nil {
				return err
			}
			s.add("view", last, parts)
			viewed, shown = time.Now(), last
		}
		if s.b.Len() == 0 && len(events) == 0 && !ended {
			s.b.WriteString(": alive\n\n")
		}
		if s.b.Len() > 0 {
			if err := s.flush(); err != nil {
				return err
			}
		}
		if ended {
			return io.EOF
		}
	}
}
