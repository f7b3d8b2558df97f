// Package ui serves pages in which a person watches a run, or reads past ones: over HTTP
// on this machine, to whoever has the address, which holds a random token. Pages read and
// change nothing. They fetch nothing from anywhere else.
package ui

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/report/html"
)

// What whoever reaches the address may take of this process.
const (
	mostConnections = 256
	headerBytes     = 8 << 10
	requestTime     = 10 * time.Second
)

// patience is how long a page may take to read what was sent to it, and an open one to
// fetch the report once a run is over.
const patience = 5 * time.Second

// Options of the pages. Stream or Library is required.
type Options struct {
	// Address is where to listen, [HOST]:PORT; without a host, on this machine alone.
	Address string
	// Stream is the run to be watched.
	Stream *event.Stream
	// Library has the past runs.
	Library Library
}

// Server serves pages until it is closed.
type Server struct {
	Options
	listener net.Listener
	http     *http.Server
	token    string
	hosts    []string // names by which this machine may be called, besides addresses
	serving  chan error
	live     *live // nil without a stream

	interrupt context.CancelFunc // of all requests

	once sync.Once // Close
	mu   sync.Mutex
	less *sync.Cond // there is one request less
	open int        // requests that are being answered, events among them
}

// Listen binds the address and begins to serve. The caller closes the server.
func Listen(ctx context.Context, o Options) (*Server, error) {
	host, port, err := net.SplitHostPort(o.Address)
	if err != nil {
		return nil, fmt.Errorf("listen for the page: %w; write an address and a port, such as 127.0.0.1:8080", err)
	}
	if host == "" {
		o.Address = net.JoinHostPort("127.0.0.1", port)
	}
	var config net.ListenConfig
	ln, err := config.Listen(ctx, "tcp", o.Address)
	if err != nil {
		return nil, fmt.Errorf("listen for the page: %w; choose another port, or 0 for any that is free", err)
	}
	s := &Server{Options: o, listener: ln, token: rand.Text(), hosts: []string{"localhost"}, serving: make(chan error, 1)}
	s.less = sync.NewCond(&s.mu)
	if host != "" {
		s.hosts = append(s.hosts, strings.ToLower(host))
	}
	if name, err := os.Hostname(); err == nil && !s.Loopback() {
		s.hosts = append(s.hosts, strings.ToLower(name))
	}
	ctx, s.interrupt = context.WithCancel(context.WithoutCancel(ctx))
	if o.Stream != nil {
		s.live = newLive(o.Stream)
	}
	s.http = &http.Server{
		Handler: s.guarded(s.routes()), MaxHeaderBytes: headerBytes,
		ReadHeaderTimeout: requestTime, IdleTimeout: time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    log.New(io.Discard, "", 0), // whoever connects could write it
	}
	go func() { s.serving <- s.http.Serve(netutil.LimitListener(ln, mostConnections)) }()
	return s, nil
}

// Loopback says whether only this machine reaches the pages.
func (s *Server) Loopback() bool {
	at, ok := s.listener.Addr().(*net.TCPAddr)
	return ok && at.IP.IsLoopback()
}

// URL is the address of the first page, with the token in it.
func (s *Server) URL() string {
	at := s.listener.Addr().String()
	if host, port, err := net.SplitHostPort(at); err == nil {
		if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
			at = net.JoinHostPort(s.hosts[len(s.hosts)-1], port)
		}
	}
	return "http://" + at + "/" + s.token + "/"
}

// Close ends the pages: those that are open get what was published until the stream was
// closed, and have a moment to fetch the report. The stream has to be closed before. A
// second Close does nothing.
func (s *Server) Close() (err error) {
	s.once.Do(func() { err = s.close() })
	return err
}

func (s *Server) close() error {
	if s.live == nil {
		s.interrupt()
	} else { // also those that read slowly, or come again and again
		defer time.AfterFunc(s.live.patience, s.interrupt).Stop()
	}
	s.answered() // each ends in time: see live.events
	s.interrupt()
	err := s.http.Close()
	s.answered() // what came meanwhile
	if served := <-s.serving; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("serve the page: %w", served))
	}
	return err
}

// routes are the pages below the token.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for _, a := range assets {
		mux.HandleFunc("GET /"+a.name, a.serve)
	}
	if s.live != nil {
		mux.HandleFunc("GET /{$}", s.live.page)
		mux.HandleFunc("GET /report", s.live.serveReport)
		mux.HandleFunc("GET /events", s.live.events)
	} else {
		l := &shelf{library: s.Library, busy: make(chan struct{}, 1)}
		mux.HandleFunc("GET /{$}", l.list)
		mux.HandleFunc("GET /run/{id}", l.run)
		mux.HandleFunc("GET /compare", l.compare)
	}
	return mux
}

// count counts the requests that are being answered.
func (s *Server) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open += n
	s.less.Broadcast()
}

// answered waits until all of them are.
func (s *Server) answered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.open > 0 {
		s.less.Wait()
	}
}

// policy of all pages: nothing but what this server has, in no frame of others. The script
// of a finished report is in its page.
var policy = "default-src 'none'; script-src 'self' " + html.ScriptSource() + "; style-src 'self' 'unsafe-inline'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// guarded lets in who calls this machine by a name of its own and has the token. A page
// of a stranger's that a browser shows can have its own name lead here (DNS rebinding),
// but then it calls it by that name.
func (s *Server) guarded(pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.count(1)
		defer s.count(-1)
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		// Of everybody, also who has no token; events extend it.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(patience))
		if r.ContentLength != 0 { // the server reads a body before it answers, and waits for it
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(requestTime))
		}
		if !s.calledByName(r.Host) {
			http.Error(w, "this server is called by another name", http.StatusMisdirectedRequest)
			return
		}
		token, path, found := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if !found || subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) != 1 {
			http.Error(w, "there is no such page; use the address that hopbench printed", http.StatusNotFound)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.Error(w, "these pages are only read", http.StatusMethodNotAllowed)
			return
		}
		below := r.Clone(r.Context())
		below.URL.Path, below.URL.RawPath = "/"+path, ""
		pages.ServeHTTP(w, below)
	})
}

// calledByName says whether a Host header names this machine: by an address, which no
// name of a stranger's is, or a name of its own, with the port.
func (s *Server) calledByName(hostPort string) bool {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil { // without a port: HTTP's own
		host, port = strings.Trim(hostPort, "[]"), "80"
	}
	if _, own, err := net.SplitHostPort(s.listener.Addr().String()); err != nil || own != port {
		return false
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return slices.Contains(s.hosts, strings.ToLower(host))
}
