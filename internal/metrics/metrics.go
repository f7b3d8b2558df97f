// Package metrics lets Prometheus see what a server does, and where a run is.
package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/probe"
)

// Whoever reaches the address may read, and take no more of the server than this.
const (
	mostConnections = 8
	mostRequests    = 2
	requestTime     = 5 * time.Second
	headerBytes     = 8 << 10
)

// Listen binds the address of the metrics.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	ln, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return netutil.LimitListener(ln, mostConnections), nil
}

// Serve answers GET /metrics at ln with what stats says until ctx ends. It closes ln.
func Serve(ctx context.Context, ln net.Listener, stats func() probe.Stats) error {
	return serve(ctx, ln, newServer(stats))
}

func serve(ctx context.Context, ln net.Listener, what prometheus.Collector) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), what)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: mostRequests, Timeout: requestTime}))
	s := &http.Server{
		Handler: mux, MaxHeaderBytes: headerBytes,
		ReadTimeout: requestTime, WriteTimeout: 2 * requestTime, IdleTimeout: requestTime,
	}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() }) // its connections are of no more use
	defer stop()
	if err := s.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}

// server collects what a server says of itself when it is asked.
type server struct {
	stats func() probe.Stats

	clients, waiting, used, limit, tests, refused, pushed, bytes *prometheus.Desc
}

func newServer(stats func() probe.Stats) *server {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("hopbench_"+name, help, labels, nil)
	}
	return &server{
		stats:   stats,
		clients: desc("clients", "Client addresses with tests in progress."),
		waiting: desc("waiting_connections", "Connections that have not said yet what they want."),
		used:    desc("used", "What the tests in progress take of a resource at most.", "resource"),
		limit:   desc("limit", "What all tests together may take of a resource.", "resource"),
		tests:   desc("tests_total", "Tests that began.", "kind"),
		refused: desc("refusals_total", "Clients that were refused or failed.", "reason"),
		pushed:  desc("pushed_out_connections_total", "Silent connections that were ended for newer ones."),
		bytes:   desc("payload_bytes_total", "Payload of tests.", "direction"),
	}
}

// Describe implements prometheus.Collector.
func (s *server) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(s, out) }

// Collect implements prometheus.Collector.
func (s *server) Collect(out chan<- prometheus.Metric) {
	now := s.stats()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	gauge(s.clients, float64(now.Clients))
	gauge(s.waiting, float64(now.Waiting))
	for _, r := range admission.Resources() {
		gauge(s.used, float64(now.Used[r]), r.String())
		gauge(s.limit, float64(now.Limits[r]), r.String())
	}
	for kind, n := range now.Began {
		counter(s.tests, float64(n), string(kind))
	}
	for reason, n := range now.Refused {
		counter(s.refused, float64(n), reason)
	}
	counter(s.pushed, float64(now.PushedOut))
	counter(s.bytes, float64(now.ReceivedBytes), "received")
	counter(s.bytes, float64(now.SentBytes), "sent")
}
