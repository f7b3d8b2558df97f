package ui

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/report/reporttest"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
)

// ask asks for a page, with what change does to the request.
func ask(t *testing.T, at string, change func(*http.Request)) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
	testutil.OK(t, err)
	if change != nil {
		change(r)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(r)
	testutil.OK(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	testutil.OK(t, err)
	return response, string(text)
}

// Who has not the whole address, calls this machine by a name that is not its own, or wants
// to change something gets nothing.
func TestStrangersGetNothing(t *testing.T) {
	s := event.NewStream()
	page := serve(t, s)
	begun(s)
	own, err := url.Parse(page.URL())
	testutil.OK(t, err)
	root := "http://" + own.Host
	other := "A"
	if strings.HasPrefix(page.token, other) {
		other = "B"
	}
	host := func(name string) func(*http.Request) {
		return func(r *http.Request) { r.Host = name }
	}
	for _, c := range []struct {
		what, at string
		change   func(*http.Request)
		status   int
	}{
		{"the page", page.URL(), nil, http.StatusOK},
		{"the page as localhost", page.URL(), host("localhost:" + own.Port()), http.StatusOK},
		{"the page as LOCALHOST", page.URL(), host("LOCALHOST:" + own.Port()), http.StatusOK},
		{"the page by another address of this machine", page.URL(), host("[::1]:" + own.Port()), http.StatusOK},
		{"no token", root + "/", nil, http.StatusNotFound},
		{"no token, events", root + "/events", nil, http.StatusNotFound},
		{"an empty token", root + "//", nil, http.StatusNotFound},
		{"a wrong token", root + "/" + other + page.token[1:] + "/", nil, http.StatusNotFound},
		{"a part of the token", root + "/" + page.token[:len(page.token)-1] + "/", nil, http.StatusNotFound},
		{"more than the token", root + "/" + page.token + "A/", nil, http.StatusNotFound},
		{"a file that there is not", page.URL() + "../../etc/passwd", nil, http.StatusNotFound},
		{"another name (DNS rebinding)", page.URL(), host("evil.example:" + own.Port()), http.StatusMisdirectedRequest},
		{"another name that begins as ours", page.URL(), host("localhost.evil.example:" + own.Port()), http.StatusMisdirectedRequest},
		{"another port", page.URL(), host("127.0.0.1:1"), http.StatusMisdirectedRequest},
		{"no port", page.URL(), host("127.0.0.1"), http.StatusMisdirectedRequest},
		{"a change", page.URL(), func(r *http.Request) { r.Method = http.MethodPost }, http.StatusMethodNotAllowed},
		{"a report that there is not yet", page.URL() + "report", nil, http.StatusNotFound},
	} {
		response, text := ask(t, c.at, c.change)
		if response.StatusCode != c.status {
			t.Errorf("%s: status %d, want %d", c.what, response.StatusCode, c.status)
		}
		if c.status != http.StatusOK && (strings.Contains(text, page.token) || strings.Contains(text, "flows-64")) {
			t.Errorf("%s: got %q", c.what, text)
		}
		for header, want := range map[string]string{"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"} {
			if got := response.Header.Get(header); got != want && got != "no-cache" {
				t.Errorf("%s: %s is %q", c.what, header, got)
			}
		}
	}
	if len(page.token) < 26 { // of 32 letters: 130 bits
		t.Errorf("the token %q can be guessed", page.token)
	}
	if another := serve(t, event.NewStream()); another.token == page.token {
		t.Error("two servers have one token")
	}
}

// What strangers named is shown, and does nothing.
func TestHostileNames(t *testing.T) {
	s := event.NewStream()
	page := serve(t, s)
	begun(s)
	s.Publish(event.Event{Code: event.RunStarted, Run: &event.RunStart{Name: hostile, Title: hostile, Folder: hostile, Paths: []string{hostile}, Tests: []string{"\x1b[2J" + hostile}}})
	_, text := ask(t, page.URL(), nil)
	if strings.Contains(text, "<img") || strings.Contains(text, "\x1b") || !strings.Contains(text, "&lt;img") {
		t.Errorf("a name is not escaped:\n%s", text)
	}
}

func TestAssets(t *testing.T) {
	page := serve(t, event.NewStream())
	for name, want := range map[string]string{"style.css": ".verdicts", "live.js": "EventSource", "uplot.js": "Permission is hereby granted"} {
		response, text := ask(t, page.URL()+name, nil)
		if response.StatusCode != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: status %d, %d bytes", name, response.StatusCode, len(text))
		}
	}
}

func TestPortInUse(t *testing.T) {
	page := serve(t, event.NewStream())
	address := page.listener.Addr().String()
	if another, err := Listen(t.Context(), Options{Address: address, Stream: event.NewStream()}); err == nil || !strings.Contains(err.Error(), "choose another port") {
		t.Errorf("%v, %v", another, err)
	}
	if _, err := Listen(t.Context(), Options{Address: "nonsense"}); err == nil || !strings.Contains(err.Error(), "write an address and a port") {
		t.Error(err)
	}
}

// follow reads a page's events until its server says that all is over, or as many as stop.
func follow(t *testing.T, at, after string, stop int) (seconds []string, last string, lost bool, over bool) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at+"events", nil)
	testutil.OK(t, err)
	if after != "" {
		r.Header.Set("Last-Event-ID", after)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		t.Error(err)
		return nil, "", false, false
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	id, name := "", ""
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch field {
		case "id":
			id = value
		case "event":
			name = value
		case "":
			switch name {
			case "second":
				seconds, last = append(seconds, id), id
			case "lost":
				lost = true
			case "over":
				return seconds, last, lost, true
			}
			if name = ""; len(seconds) >= stop {
				return seconds, last, lost, false
			}
		}
	}
	return seconds, last, lost, false
}

// Hundred pages get every second each; one that comes back gets those that it lacks.
func TestManyPages(t *testing.T) {
	s := event.NewStream()
	page := serve(t, s)
	begun(s)
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			seconds, _, lost, over := follow(t, page.URL(), "", 1000)
			if len(seconds) != 20 || lost || !over {
				t.Errorf("page %d got %d seconds, lost some: %v, saw the end: %v", i, len(seconds), lost, over)
			}
		})
	}
	all.Go(func() {
		some, last, _, _ := follow(t, page.URL(), "", 7)
		rest, _, _, over := follow(t, page.URL(), last, 1000)
		seen := map[string]bool{}
		for _, id := range append(some, rest...) {
			if seen[id] {
				t.Errorf("second %s came twice", id)
			}
			seen[id] = true
		}
		if len(seen) != 20 || !over {
			t.Errorf("who came back got %d seconds, saw the end: %v", len(seen), over)
		}
	})
	seconds(s, 0, 20, 2)
	over(t, s, page)
	s.Close()
	all.Wait()
	testutil.OK(t, page.Close())
}

// A page that never reads is given up; it delays neither the run nor the others, and the
// end not for long. Nor does one that does not even ask.
func TestPagesThatDoNotRead(t *testing.T) {
	s := event.NewStream()
	page := serve(t, s)
	page.live.patience = time.Second
	begun(s)
	own, err := url.Parse(page.URL())
	testutil.OK(t, err)
	for _, request := range []string{"", "GET /", fmt.Sprintf("GET %sevents HTTP/1.1\r\nHost: %s\r\n\r\n", own.Path, own.Host)} {
		c, err := net.Dial("tcp", own.Host)
		testutil.OK(t, err)
		defer c.Close()
		if tcp, ok := c.(*net.TCPConn); ok {
			testutil.OK(t, tcp.SetReadBuffer(4096))
		}
		_, err = c.Write([]byte(request))
		testutil.OK(t, err)
	}
	seconds(s, 0, 3000, mostPairs) // some 15 MB: more than sockets hold
	got, _, _, _ := follow(t, page.URL(), "", 10)
	if len(got) != 10 {
		t.Errorf("who reads got %d seconds", len(got))
	}
	s.Close()
	testutil.OK(t, page.Close())
}

// Nor does one without the token, which asks and reads no answer, keep its connection.
func TestStrangersThatDoNotRead(t *testing.T) {
	page := serve(t, event.NewStream())
	own, err := url.Parse(page.URL())
	testutil.OK(t, err)
	c, err := net.Dial("tcp", own.Host)
	testutil.OK(t, err)
	defer c.Close()
	testutil.OK(t, c.SetWriteDeadline(time.Now().Add(time.Minute)))
	requests := []byte(strings.Repeat("GET / HTTP/1.1\r\nHost: "+own.Host+"\r\n\r\n", 1000))
	for err == nil {
		_, err = c.Write(requests)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("its connection is kept")
	}
}

// Who reads too late is told what it did not get.
func TestLatePageIsTold(t *testing.T) {
	s := event.NewStream()
	page := serve(t, s)
	begun(s)
	seconds(s, 0, 20_000, 1)
	if _, _, lost, _ := follow(t, page.URL(), "1", 10); !lost {
		t.Error("nothing was said of what was lost")
	}
}

// The report is there from the end of the run on, and no other run's.
func TestReport(t *testing.T) {
	s := event.NewStream()
	page := serve(t, s)
	begun(s)
	over(t, s, page)
	response, text := ask(t, page.URL()+"report", nil)
	if response.StatusCode != http.StatusOK || !strings.Contains(text, `id="verdict"`) || strings.Contains(text, "<html") {
		t.Errorf("status %d, %.300s", response.StatusCode, text)
	}
	parts, err := page.live.render()
	testutil.OK(t, err)
	if !bytes.Contains(parts, []byte(`"report":true`)) {
		t.Errorf("pages are not told: %s", parts)
	}
	page.Report(nil) // the next run failed
	if response, _ := ask(t, page.URL()+"report", nil); response.StatusCode != http.StatusNotFound {
		t.Errorf("status %d", response.StatusCode)
	}
}

// shelved is a library of two runs, one of which cannot be read.
type shelved struct {
	run     *result.Result
	working chan struct{} // what an analysis waits for, if anything
	begun   chan struct{} // closed by it before it waits
}

func (shelved) Runs(context.Context) ([]Run, error) {
	return []Run{{ID: "a1", Folder: hostile, Experiment: "routing", Started: time.Now(), Trials: 3, Planned: 4}, {ID: "b2", Folder: "broken", Error: "not a run"}}, nil
}

func (l shelved) Result(ctx context.Context, id string) (*result.Result, error) {
	if l.working != nil {
		close(l.begun)
		select {
		case <-l.working:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if id != "a1" {
		return nil, ErrNoRun
	}
	return l.run, nil
}

func (l shelved) Comparison(_ context.Context, reference, id string) (*result.Comparison, error) {
	if reference != "a1" || id != "b2" {
		return nil, errors.New("nothing in common")
	}
	return &result.Comparison{Runs: []result.ComparedRun{{Label: "A", Source: hostile, Experiment: "routing"}, {Label: "B", Experiment: "routing"}}}, nil
}

func TestLibrary(t *testing.T) {
	page, err := Listen(t.Context(), Options{Address: "127.0.0.1:0", Library: shelved{run: reporttest.Run(t, 4)}})
	testutil.OK(t, err)
	defer func() { testutil.OK(t, page.Close()) }()
	for _, c := range []struct {
		at, want string
		status   int
	}{
		{"", "routing", http.StatusOK},
		{"", "not a run", http.StatusOK},
		{"run/a1", "How to reproduce", http.StatusOK},
		{"run/zz", "no such run", http.StatusNotFound},
		{"run/..%2f..%2fetc", "no such page", http.StatusNotFound},
		{"compare?reference=a1&run=b2", "hopbench comparison", http.StatusOK},
		{"compare?reference=a1&run=a1", "choose two runs", http.StatusBadRequest},
		{"compare", "choose two runs", http.StatusBadRequest},
		{"compare?reference=b2&run=a1", "nothing in common", http.StatusInternalServerError},
		{"events", "", http.StatusNotFound},
	} {
		response, text := ask(t, page.URL()+c.at, nil)
		if response.StatusCode != c.status || !strings.Contains(text, c.want) || strings.Contains(text, "<img") {
			t.Errorf("%s: status %d, %.300s", c.at, response.StatusCode, text)
		}
	}
}

// A page of past runs that is closed while a run is analysed ends at once.
func TestLibraryIsClosedAtWork(t *testing.T) {
	begun := make(chan struct{})
	page, err := Listen(t.Context(), Options{Address: "127.0.0.1:0", Library: shelved{working: make(chan struct{}), begun: begun}})
	testutil.OK(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var asking sync.WaitGroup
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, page.URL()+"run/a1", nil)
	testutil.OK(t, err)
	asking.Go(func() {
		transport := &http.Transport{DisableKeepAlives: true}
		if response, err := (&http.Client{Transport: transport}).Do(r); err == nil {
			response.Body.Close()
		}
	})
	<-begun
	if err := page.Close(); err != nil {
		t.Error(err)
	}
	asking.Wait()
}
