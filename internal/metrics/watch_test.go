package metrics

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	grafana "github.com/grafana/grafana-foundation-sdk/go/dashboard"

	"github.com/hopbench/hopbench/internal/testutil"
	"github.com/hopbench/hopbench/internal/watch"
)

// watching is how a watch of a host and an experiment at once would stand, so that every
// panel has something to show.
func watching() watch.State {
	limits := &watch.Limits{Level: 1e-3, Low: 0.9e-3, High: 1.2e-3, SmallestDrop: 0.15e-3, SmallestRise: 0.25e-3, BlockDrop: 0.03e-3, BlockRise: 0.04e-3, Samples: 960}
	series := func(test, metric string) watch.Status {
		return watch.Status{Series: watch.Series{Test: test, Metric: metric}, Last: 1.1e-3, Limits: limits, Changes: 2}
	}
	effect := series("flows", "goodput_bits_per_second")
	effect.Path, effect.Baseline, effect.Limits, effect.Missing = "fw \xff", "direct", nil, 7
	return watch.State{
		Head: watch.Head{Name: "lab \xff", Rules: watch.Rules{Every: 900, FalseAlarmsPerYear: 0.2}}, Rounds: 1200, Payload: 5e9, Waiting: 3,
		Last:   watch.Round{Number: 1200, Start: time.UnixMilli(1_700_000_000_500), Elapsed: 9.5, Left: -4e6},
		Series: []watch.Status{series("latency", "rtt_p50_seconds"), series("latency", "loss_fraction"), series("send", "goodput_bits_per_second"), effect},
		Route:  []string{"10.0.0.1", ""}, Events: map[watch.Code]int64{watch.LevelChanged: 8, watch.OutageBegan: 1},
	}
}

// serveWatching serves the metrics of that until the test ends.
func serveWatching(t *testing.T, state func() watch.State) (address string) {
	t.Helper()
	return served(t, func(ctx context.Context, ln net.Listener) error { return ServeWatch(ctx, ln, state) })
}

func TestWatchMetrics(t *testing.T) {
	state := watching()
	address := serveWatching(t, func() watch.State { return state })
	text, err := fetch(t, "http://"+address+"/metrics")
	testutil.OK(t, err)
	const rtt = `baseline="",metric="rtt_p50_seconds",path="",`
	for _, want := range []string{
		"hopbench_watch_value{" + rtt + "test=\"latency\",watch=\"lab \uFFFD\"} 0.0011",
		"hopbench_watch_level{" + rtt + "test=\"latency\",watch=\"lab \uFFFD\"} 0.001",
		"hopbench_watch_limit{" + rtt + "side=\"high\",test=\"latency\",watch=\"lab \uFFFD\"} 0.0012",
		"hopbench_watch_smallest_effect{" + rtt + "side=\"low\",test=\"latency\",watch=\"lab \uFFFD\"} 0.00015",
		"hopbench_watch_smallest_block_effect{" + rtt + "side=\"high\",test=\"latency\",watch=\"lab \uFFFD\"} 4e-05",
		"hopbench_watch_learning_samples_missing{baseline=\"direct\",metric=\"goodput_bits_per_second\",path=\"fw \uFFFD\",test=\"flows\",watch=\"lab \uFFFD\"} 7",
		"hopbench_watch_level_changes_total{" + rtt + "test=\"latency\",watch=\"lab \uFFFD\"} 2",
		"hopbench_watch_rounds_total{watch=\"lab \uFFFD\"} 1200", "hopbench_watch_last_round_timestamp_seconds{watch=\"lab \uFFFD\"} 1.7000000005e+09",
		"hopbench_watch_up{watch=\"lab \uFFFD\"} 1", "hopbench_watch_route_hops{watch=\"lab \uFFFD\"} 2", "hopbench_watch_budget_left_bytes{watch=\"lab \uFFFD\"} -4e+06",
		"hopbench_watch_events_total{code=\"level-changed\",watch=\"lab \uFFFD\"} 8", "hopbench_watch_events_total{code=\"route-changed\",watch=\"lab \uFFFD\"} 0",
		"hopbench_watch_payload_bytes_total{watch=\"lab \uFFFD\"} 5e+09", "hopbench_watch_rounds_waiting{watch=\"lab \uFFFD\"} 3", "hopbench_watch_false_alarms_per_year{watch=\"lab \uFFFD\"} 0.2",
	} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("%s is missing", want)
		}
	}
	if strings.Contains(text, `hopbench_watch_level{baseline="direct"`) {
		t.Error("a level that is not learned yet")
	}
	state = watch.State{}
	if text, err = fetch(t, "http://"+address+"/metrics"); err != nil || strings.Contains(text, "\nhopbench_watch_up") {
		t.Errorf("before the first round: %v\n%s", err, text)
	}
}

// TestDocumentedWatchMetrics holds that docs/watch.md has each.
func TestDocumentedWatchMetrics(t *testing.T) {
	page, err := os.ReadFile("../../docs/watch.md")
	testutil.OK(t, err)
	text, err := fetch(t, "http://"+serveWatching(t, watching)+"/metrics")
	testutil.OK(t, err)
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (hopbench_watch_\w+) `).FindAllStringSubmatch(text, -1) {
		if !strings.Contains(string(page), "`"+m[1]) {
			t.Errorf("docs/watch.md lacks %s", m[1])
		}
	}
}

// dashboard is what the tests look at of a dashboard of Grafana.
type dashboard struct {
	UID, Title    string
	SchemaVersion int
	Templating    struct {
		List []struct{ Type, Name, Definition string }
	}
	Annotations struct {
		List []struct{ Name, Expr string }
	}
	Panels []struct {
		ID          int
		Type, Title string
		GridPos     struct{ X, Y, W, H int }
		Targets     []struct {
			RefID, Expr    string
			Datasource     struct{ UID string }
			Instant, Range bool
		}
		FieldConfig struct {
			Defaults struct {
				Color      *struct{ Mode string }
				Thresholds *struct{ Steps []struct{ Value *float64 } }
			}
			Overrides []struct{ Matcher struct{ ID, Options string } }
		}
	}
}

const dashboardFile = "../../docs/grafana/hopbench-watch.json"

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	testutil.OK(t, err)
	testutil.OK(t, json.Unmarshal(text, &d))
	return d
}

// The types that Grafana generates of its own schema read the file, panels and queries of
// their plugins included, and find no field that they do not know, and none missing.
func TestGrafanasOwnTypesReadTheDashboard(t *testing.T) {
	plugins.RegisterDefaultPlugins()
	text, err := os.ReadFile(dashboardFile)
	testutil.OK(t, err)
	read := func(text []byte) error {
		//lint:ignore SA1019 ours is of the format that every Grafana imports
		var d grafana.Dashboard
		err := d.UnmarshalJSONStrict(text)
		if found, ok := errors.AsType[cog.BuildErrors](err); ok && len(found) == 0 {
			err = nil
		}
		return errors.Join(err, d.Validate())
	}
	testutil.OK(t, read(text))
	for _, name := range []string{"graphTooltip", "gridPos", "expr", "colorMode", "drawStyle", "iconColor"} {
		wrong := bytes.Replace(text, []byte(`"`+name+`"`), []byte(`"`+name+`s"`), 1)
		if bytes.Equal(wrong, text) || read(wrong) == nil {
			t.Errorf("a dashboard with %ss for %s is read, or ours has none", name, name)
		}
	}
}

// What the types do not say: values, places and names that belong together.
func TestTheDashboardIsWhole(t *testing.T) {
	d := readDashboard(t)
	if n := len(d.UID); n < 8 || n > 40 {
		t.Errorf("uid %q has not 8 to 40 characters", d.UID)
	}
	if d.Title == "" || d.SchemaVersion < 36 {
		t.Errorf("title %q, schema version %d", d.Title, d.SchemaVersion)
	}
	ids := map[int]bool{}
	taken := map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("two panels have the id %d", p.ID)
		}
		ids[p.ID] = true
		if !slices.Contains([]string{"stat", "timeseries", "table"}, p.Type) || p.Title == "" || len(p.Targets) == 0 {
			t.Errorf("panel %d %q is a %s with %d queries", p.ID, p.Title, p.Type, len(p.Targets))
		}
		g := p.GridPos
		if g.W < 1 || g.H < 1 || g.X < 0 || g.Y < 0 || g.X+g.W > 24 {
			t.Errorf("panel %q is at %+v of 24 columns", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("panels %q and %q lie on each other", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		refs := map[string]bool{}
		for _, q := range p.Targets {
			if refs[q.RefID] || q.RefID == "" || q.Instant == q.Range || q.Datasource.UID != "${datasource}" {
				t.Errorf("query %+v of %q", q, p.Title)
			}
			refs[q.RefID] = true
		}
		for _, o := range p.FieldConfig.Overrides {
			if o.Matcher.ID == "byFrameRefID" && !refs[o.Matcher.Options] {
				t.Errorf("an override of %q is of query %q, which there is not", p.Title, o.Matcher.Options)
			}
		}
		if c := p.FieldConfig.Defaults.Color; c != nil && !slices.Contains([]string{"thresholds", "palette-classic", "fixed"}, c.Mode) {
			t.Errorf("colours of %q by %q", p.Title, c.Mode)
		}
		if th := p.FieldConfig.Defaults.Thresholds; th != nil {
			for i, s := range th.Steps {
				if (i == 0) != (s.Value == nil) {
					t.Errorf("the first step of %q alone has no value", p.Title)
				}
			}
		}
	}
	for _, v := range d.Templating.List {
		if !slices.Contains([]string{"query", "datasource"}, v.Type) || v.Name == "" {
			t.Errorf("variable %+v", v)
		}
	}
}

// answer is what Prometheus says to a query.
type answer struct {
	Status, Error string
	Data          json.RawMessage
}

// TestPrometheusAnswersTheDashboard has Debian's Prometheus scrape a watch, and asks it each
// query of the dashboard.
func TestPrometheusAnswersTheDashboard(t *testing.T) {
	program, err := exec.LookPath("prometheus")
	testutil.Need(t, err == nil, "Prometheus (Debian's package prometheus)")
	state := watching()
	state.Head.Name = "office"
	target := serveWatching(t, func() watch.State {
		s := state
		s.Last.Start = time.Now()
		return s
	})
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	testutil.OK(t, os.WriteFile(config, []byte("global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n- {job_name: hopbench, static_configs: [{targets: ['"+target+"']}]}\n"), 0o600))
	port, err := testutil.FreePort()
	testutil.OK(t, err)
	at := fmt.Sprintf("http://127.0.0.1:%d", port)
	ctx, kill := context.WithCancel(context.Background())
	c := exec.CommandContext(ctx, program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+strings.TrimPrefix(at, "http://"))
	c.Dir = dir
	var log bytes.Buffer
	c.Stdout, c.Stderr = &log, &log
	testutil.OK(t, c.Start())
	t.Cleanup(func() {
		kill()
		_ = c.Wait() // it was killed
		if t.Failed() {
			t.Log(log.String())
		}
	})
	ask := func(expr string) (results []json.RawMessage, err error) {
		text, err := fetch(t, at+"/api/v1/query?query="+url.QueryEscape(expr))
		if err != nil {
			return nil, err
		}
		var a answer
		testutil.OK(t, json.Unmarshal([]byte(text), &a))
		var data struct{ Result []json.RawMessage }
		testutil.OK(t, json.Unmarshal(a.Data, &data))
		return data.Result, nil
	}
	// Two scrapes, so that there are rates.
	testutil.Longer(t, func(factor float64) string {
		for end := time.Now().Add(time.Duration(factor * float64(15*time.Second))); time.Now().Before(end); {
			if r, err := ask(`count_over_time(hopbench_watch_rounds_total[5m]) >= 2`); err == nil && len(r) > 0 {
				return ""
			}
			select { // the next scrape is a second away
			case <-t.Context().Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
		return "two scrapes"
	})
	d := readDashboard(t)
	filled := strings.NewReplacer("$watch", "office", "$__rate_interval", "1m")
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			results, err := ask(filled.Replace(q.Expr))
			if err != nil || len(results) == 0 {
				t.Errorf("panel %q, query %s: %d series, %v", p.Title, q.RefID, len(results), err)
			}
		}
	}
	for _, a := range d.Annotations.List {
		if _, err := ask(filled.Replace(a.Expr)); err != nil {
			t.Errorf("annotation %q: %v", a.Name, err)
		}
	}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		of := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).FindStringSubmatch(v.Definition)
		if of == nil {
			t.Errorf("variable %s has the query %q", v.Name, v.Definition)
			continue
		}
		text, err := fetch(t, at+"/api/v1/label/"+of[2]+"/values?match[]="+of[1])
		if err != nil || !strings.Contains(text, `"office"`) {
			t.Errorf("values of variable %s: %s, %v", v.Name, text, err)
		}
	}
}
