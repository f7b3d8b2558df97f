package meter

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/testbed/inventory"
	"github.com/hopbench/hopbench/internal/testutil"
)

func asking(t testing.TB, m inventory.PrometheusMeter) Meter {
	t.Helper()
	p, err := newMeter(inventory.Hop{Name: "fw", Prometheus: &m}, nil)
	testutil.OK(t, err)
	t.Cleanup(func() { testutil.OK(t, p.Close()) })
	return p
}

// exporter counts up whenever it is scraped.
func exporter(t *testing.T) (address string) {
	t.Helper()
	var scrapes atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := scrapes.Add(1)
		fmt.Fprintf(w, "# TYPE fw_bytes_total counter\nfw_bytes_total{dir=\"fwd\"} %d\nfw_bytes_total{dir=\"back\"} %d\n", 1000*n, 10*n)
		fmt.Fprintf(w, "# TYPE fw_packets_total counter\nfw_packets_total{dir=\"fwd\"} %d\n# TYPE fw_cpu_seconds_total counter\nfw_cpu_seconds_total %v\n", n, 0.5*float64(n))
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// prometheusServer runs Debian's Prometheus, which scrapes a target.
func prometheusServer(t *testing.T, target string) (url string) {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	testutil.Need(t, err == nil, "Prometheus (Debian's package prometheus)")
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	testutil.OK(t, os.WriteFile(config, []byte("global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n- {job_name: fw, static_configs: [{targets: ['"+target+"']}]}\n"), 0o600))
	port, err := testutil.FreePort()
	testutil.OK(t, err)
	address := fmt.Sprintf("127.0.0.1:%d", port)
	run(t, program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	return "http://" + address
}

// run has a program run until the test ends.
func run(t *testing.T, argv ...string) {
	t.Helper()
	ctx, kill := context.WithCancel(context.Background())
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Dir = t.TempDir()
	var log bytes.Buffer
	c.Stdout, c.Stderr = &log, &log
	err := c.Start()
	t.Cleanup(func() {
		kill()
		_ = c.Wait() // it was killed
		if t.Failed() {
			t.Log(log.String())
		}
	})
	testutil.OK(t, err)
}

// awaitReading asks until there is a reading that a test wants.
func awaitReading(t *testing.T, m Meter, wanted func(Reading) bool) (r Reading) {
	t.Helper()
	testutil.Longer(t, func(factor float64) string {
		var err error
		for end := time.Now().Add(time.Duration(factor * 10 * float64(time.Second))); time.Now().Before(end); {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			r, err = m.Read(ctx)
			cancel()
			if err == nil && wanted(r) {
				return ""
			}
			time.Sleep(50 * time.Millisecond)
		}
		return fmt.Sprintf("the last reading: %+v, %v", r, err)
	})
	return r
}

// Totals of a real server are those of one scrape, which is dated by the server; those of
// an expression are not.
func TestPrometheus(t *testing.T) {
	url := prometheusServer(t, exporter(t))
	selected := asking(t, inventory.PrometheusMeter{
		URL:          url,
		ForwardBytes: `fw_bytes_total{dir="fwd"} # to the servers`, BackwardBytes: `fw_bytes_total{dir="back"}`,
		ForwardPackets: `fw_packets_total`, CPUSeconds: `fw_cpu_seconds_total`, DroppedPackets: `fw_drops_total or vector(0)`,
	})
	dated := asking(t, inventory.PrometheusMeter{URL: url, ForwardBytes: `fw_bytes_total{dir="fwd"}`})
	first := awaitReading(t, dated, func(r Reading) bool { return r.Timing == Dated })
	next := awaitReading(t, dated, func(r Reading) bool { return r.Totals.ForwardBytes > first.Totals.ForwardBytes })
	scrapes := (next.Totals.ForwardBytes - first.Totals.ForwardBytes) / 1000
	if apart := next.Taken.Sub(first.Taken).Seconds(); apart < 0.5*scrapes || next.Taken.After(time.Now()) {
		t.Errorf("%v scrapes, a second each, are %v s apart", scrapes, apart)
	}
	r := awaitReading(t, selected, func(Reading) bool { return true })
	n := r.Totals.ForwardPackets
	if s := r.Totals; n < 1 || s.ForwardBytes != 1000*n || s.BackwardBytes != 10*n || float64(s.CPU) != 0.5*n || s.DroppedPackets != 0 {
		t.Errorf("not of one scrape: %+v", s)
	}
	if r.Timing != Seen {
		t.Errorf("vector(0) is dated %v", r.Timing)
	}
	for query, says := range map[string]string{
		`fw_bytes_total`:             "forward_bytes has several series; select one, or write sum(…)",
		`nothing_total`:              "forward_bytes has no value now",
		`fw_bytes_total{`:            "parse error",
		`1`:                          "expected type",
		`-fw_packets_total`:          "is no total",
		`fw_packets_total / 0`:       "+Inf is no total",
		`sum(fw_bytes_total)`:        "",
		`fw_packets_total offset 2d`: "no value now",
	} {
		_, err := asking(t, inventory.PrometheusMeter{URL: url, ForwardBytes: query}).Read(t.Context())
		if (err != nil) != (says != "") || err != nil && (!strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), url)) {
			t.Errorf("%s: %v, want %q", query, err, says)
		}
	}
}

// A server that floods, or is none, costs a bounded answer.
func TestPrometheusOfStrangers(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		says   string
	}{
		"endless": {func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write([]byte(strings.Repeat(" ", 64<<10))); err != nil {
					return
				}
			}
		}, "too large"},
		"no server":      {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, "ask Prometheus at"},
		"not found":      {http.NotFound, "404"},
		"another answer": {func(w http.ResponseWriter, _ *http.Request) { answer(w, `{"resultType":"scalar","result":[1,"1"]}`) }, "no instant vector"},
		"nothing":        {func(w http.ResponseWriter, _ *http.Request) { answer(w, `{"resultType":"vector","result":[]}`) }, "it has no time"},
		"of tomorrow": {func(w http.ResponseWriter, _ *http.Request) {
			answer(w, `{"resultType":"vector","result":[{"metric":{"hopbench":"now"},"value":[1,"5"]},{"metric":{"hopbench":"forward_bytes"},"value":[1,"1"]},{"metric":{"hopbench":"forward_bytes time"},"value":[1,"9"]}]}`)
		}, "forward_bytes is -4 s old"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(c.answer)
			defer s.Close()
			_, err := asking(t, inventory.PrometheusMeter{URL: s.URL, ForwardBytes: "x"}).Read(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}

func answer(w http.ResponseWriter, data string) {
	fmt.Fprintf(w, `{"status":"success","data":%s}`, data)
}

// canned answers every request with the same text.
type canned []byte

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	_, _ = w.Write(c)
	return w.Result(), nil
}

func FuzzPrometheus(f *testing.F) {
	f.Add([]byte(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"hopbench":"now"},"value":[1,"5"]},{"metric":{"hopbench":"forward_bytes"},"value":[1,"1"]},{"metric":{"hopbench":"forward_bytes time"},"value":[1,"4"]}]}}`))
	f.Add([]byte(`{"status":"success","data":{"resultType":"vector","result":[null]}}`))
	f.Add([]byte(`{"status":"error","errorType":"bad_data","error":"1:1: parse error"}`))
	f.Add([]byte(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"1"]]}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := newPrometheus(inventory.PrometheusMeter{URL: "http://mon:9090", ForwardBytes: "x"})
		testutil.OK(t, err)
		testutil.OK(t, p.over(canned(text)))
		r, err := p.Read(t.Context())
		if err == nil && (checkTotal(r.Totals.ForwardBytes) != nil || r.Taken.After(time.Now())) {
			t.Errorf("%+v", r)
		}
	})
}
