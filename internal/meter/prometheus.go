package meter

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
)

// Bounds of an answer of a Prometheus server. A query that selects a million series is
// such a mistake.
const (
	mostAnswer = 1 << 20 // bytes, unpacked
	mostHeader = 64 << 10
)

// mark is the label by which the parts of an answer are told apart.
const mark = "hopbench"

// queried is what a query gives.
type queried struct {
	name  string
	query string
	of    func(*measurement.HopSample) *float64
}

// prometheus asks a server for all totals of a hop in one query, so that they are of one
// moment, with the time of the samples behind them and that of the server.
type prometheus struct {
	url       string
	transport *http.Transport
	api       v1.API
	totals    []queried
	query     string
}

func newPrometheus(m inventory.PrometheusMeter) (*prometheus, error) {
	p := &prometheus{url: m.URL, transport: http.DefaultTransport.(*http.Transport).Clone()}
	p.transport.MaxResponseHeaderBytes = mostHeader
	if err := p.over(p.transport); err != nil {
		return nil, err
	}
	for _, q := range []queried{
		{"forward_bytes", m.ForwardBytes, func(s *measurement.HopSample) *float64 { return &s.ForwardBytes }},
		{"backward_bytes", m.BackwardBytes, func(s *measurement.HopSample) *float64 { return &s.BackwardBytes }},
		{"forward_packets", m.ForwardPackets, func(s *measurement.HopSample) *float64 { return &s.ForwardPackets }},
		{"backward_packets", m.BackwardPackets, func(s *measurement.HopSample) *float64 { return &s.BackwardPackets }},
		{"dropped_packets", m.DroppedPackets, func(s *measurement.HopSample) *float64 { return &s.DroppedPackets }},
		{"cpu_seconds", m.CPUSeconds, func(s *measurement.HopSample) *float64 { return (*float64)(&s.CPU) }},
	} {
		if q.query != "" {
			p.totals = append(p.totals, q)
		}
	}
	// A query may end in a comment, hence the line breaks.
	parts := []string{marked("vector(time())", "now")}
	for _, q := range p.totals {
		parts = append(parts, marked(q.query, q.name), marked("timestamp("+q.query+"\n)", q.name+" time"))
	}
	p.query = strings.Join(parts, " or ")
	return p, nil
}

// over has the queries go over a transport.
func (p *prometheus) over(t http.RoundTripper) error {
	client, err := api.NewClient(api.Config{Address: p.url, RoundTripper: bounded{t}})
	if err != nil {
		return fmt.Errorf("address of a Prometheus server: %w", err)
	}
	p.api = v1.NewAPI(client)
	return nil
}

func marked(query, as string) string {
	return fmt.Sprintf("label_replace(%s\n, %q, %q, \"\", \"\")", query, mark, as)
}

// Read asks once. A sample is as old as the server says that it is, by its own clock.
// timestamp() of anything but a selector is the moment of the query: then it is not known
// how old the samples are.
func (p *prometheus) Read(ctx context.Context) (Reading, error) {
	asked := time.Now()
	answer, _, _, err := p.api.Query(ctx, p.query, time.Time{})
	if err != nil {
		return Reading{}, fmt.Errorf("ask Prometheus at %s: %w", p.url, err)
	}
	half := time.Since(asked) / 2
	r, age, err := p.parse(answer)
	if err != nil {
		return Reading{}, fmt.Errorf("the answer of Prometheus at %s: %w", p.url, err)
	}
	r.Taken = asked.Add(half - age)
	return r, nil
}

// parse reads the totals, and how old the oldest is.
func (p *prometheus) parse(answer model.Value) (r Reading, age time.Duration, err error) {
	vector, ok := answer.(model.Vector)
	if !ok {
		return r, 0, fmt.Errorf("it is no instant vector")
	}
	values := map[string]float64{}
	for _, s := range vector {
		if s == nil {
			return r, 0, fmt.Errorf("it has a series without a sample")
		}
		name := string(s.Metric[mark])
		if _, twice := values[name]; twice {
			return r, 0, fmt.Errorf("%s has several series; select one, or write sum(…)", strings.TrimSuffix(name, " time"))
		}
		values[name] = float64(s.Value)
	}
	now, ok := values["now"]
	if !ok {
		return r, 0, fmt.Errorf("it has no time")
	}
	r.Timing = Dated
	for _, q := range p.totals {
		v, given := values[q.name]
		at, dated := values[q.name+" time"]
		if !given || !dated {
			return r, 0, fmt.Errorf("%s has no value now; look at the query, or append `or vector(0)` where the counter comes later", q.name)
		}
		if err := checkTotal(v); err != nil {
			return r, 0, fmt.Errorf("%s: %w", q.name, err)
		}
		*q.of(&r.Totals) = v
		// Prometheus looks back for five minutes, unless told otherwise.
		old := now - at
		if !(old >= 0 && old < 24*60*60) {
			return r, 0, fmt.Errorf("%s is %v s old", q.name, old)
		}
		if old < 0.0005 {
			r.Timing = Seen
		}
		age = max(age, time.Duration(old*float64(time.Second)))
	}
	if r.Timing == Seen {
		age = 0
	}
	return r, age, nil
}

// Interval is a second: servers scrape every 15 s or so.
func (p *prometheus) Interval() time.Duration { return time.Second }

func (p *prometheus) Close() error {
	p.transport.CloseIdleConnections()
	return nil
}

// bounded cuts answers that are too long.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = http.MaxBytesReader(nil, answer.Body, mostAnswer)
	}
	return answer, err
}
