// Package metrics lets Prometheus see what a server does, and where a run is.
package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
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
	return serve(ctx, ln, server(stats))
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

// collector tells its metrics whenever it is asked.
type collector func(exposition)

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) { c(exposition{out: out}) }

// exposition is what is told at one time. All of it has the constant labels.
type exposition struct {
	out      chan<- prometheus.Metric
	constant prometheus.Labels
}

// family tells the series of one metric: a value, and the value of each of its labels.
type family func(v float64, labels ...string)

func (e exposition) gauge(name, help string, labels ...string) family {
	return e.family(prometheus.GaugeValue, name, help, labels)
}

func (e exposition) counter(name, help string, labels ...string) family {
	return e.family(prometheus.CounterValue, name, help, labels)
}

func (e exposition) family(kind prometheus.ValueType, name, help string, labels []string) family {
	desc := prometheus.NewDesc(name, help, labels, e.constant)
	told := map[string]bool{} // the same twice would be an error; two pairs may have the same ends
	return func(v float64, labels ...string) {
		values := make([]string, len(labels))
		for i, label := range labels {
			values[i] = valid(label)
		}
		if series := strings.Join(values, "\x00"); !told[series] {
			told[series] = true
			e.out <- prometheus.MustNewConstMetric(desc, kind, v, values...)
		}
	}
}

// valid is a label's value, which has to be UTF-8.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// server is what a server says of itself.
func server(stats func() probe.Stats) collector {
	return func(e exposition) {
		now := stats()
		e.gauge("hopbench_clients", "Client addresses with tests in progress.")(float64(now.Clients))
		e.gauge("hopbench_waiting_connections", "Connections that have not said yet what they want.")(float64(now.Waiting))
		used := e.gauge("hopbench_used", "What the tests in progress take of a resource at most.", "resource")
		limit := e.gauge("hopbench_limit", "What all tests together may take of a resource.", "resource")
		for _, r := range admission.Resources() {
			used(float64(now.Used[r]), r.String())
			limit(float64(now.Limits[r]), r.String())
		}
		tests := e.counter("hopbench_tests_total", "Tests that began.", "kind")
		for kind, n := range now.Began {
			tests(float64(n), string(kind))
		}
		refused := e.counter("hopbench_refusals_total", "Clients that were refused or failed.", "reason")
		for reason, n := range now.Refused {
			refused(float64(n), reason)
		}
		e.counter("hopbench_pushed_out_connections_total", "Silent connections that were ended for newer ones.")(float64(now.PushedOut))
		bytes := e.counter("hopbench_payload_bytes_total", "Payload of tests.", "direction")
		bytes(float64(now.ReceivedBytes), "received")
		bytes(float64(now.SentBytes), "sent")
	}
}
