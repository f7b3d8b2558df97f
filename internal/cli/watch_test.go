package cli

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/experiments"
	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/cli/testcmd"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testbed/direct/directtest"
	"github.com/hopbench/hopbench/internal/testutil"
	"github.com/hopbench/hopbench/internal/watch"
)

// served is a server with a token, and the file of that.
func served(t *testing.T) (address, tokenFile string) {
	t.Helper()
	near, far := net.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- agent.Serve(context.Background(), far, agent.Options{}) }()
	client := agent.NewClient(near)
	t.Cleanup(func() {
		if err := errors.Join(client.Close(), <-ended); err != nil {
			t.Error(err)
		}
	})
	port, err := testutil.FreePort()
	testutil.OK(t, err)
	at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
	_, err = client.Listen(t.Context(), at, agent.Serving{Token: "secret"})
	testutil.OK(t, err)
	tokenFile = filepath.Join(t.TempDir(), "token")
	testutil.OK(t, os.WriteFile(tokenFile, []byte("secret\n"), 0o600))
	return at.String(), tokenFile
}

func TestWatchKeepsRoundsAndShowsThem(t *testing.T) {
	address, token := served(t)
	dir := filepath.Join(t.TempDir(), "w")
	events := filepath.Join(t.TempDir(), "events")
	for part := range 2 { // it is taken up where it ended
		status, out, problems := command(t, "watch", address, "--token-file", token, "--only", "trace,rr", "--every", "1", "--jitter", "0", "--budget", "0/day", "--rounds", "1", "-o", dir, "--events", events, "--prometheus", ":0", "-V")
		if status != base.ExitDone || !strings.Contains(out, "RTT p50 of latency ") || !strings.Contains(out, "at most one false alarm in 4 years") || !strings.Contains(problems, "/metrics") || !strings.Contains(problems, ", longer than --every 1s: while rounds take so long, one begins every ") {
			t.Fatalf("part %d: status %d: %s%s", part, status, out, problems)
		}
	}
	status, out, problems := command(t, "results", "--history", dir)
	if status != base.ExitDone || !strings.Contains(out, "every 1s, 2 rounds") || !strings.Contains(out, "RTT p99 of latency") || !strings.Contains(out, "learning, 86398 samples to come") {
		t.Errorf("status %d: %s%s", status, out, problems)
	}
	both := filepath.Join(t.TempDir(), "both.html")
	_, out, _ = command(t, "results", "--history", dir, "--json", "--html", both)
	if _, err := os.Stat(both); err != nil {
		t.Error(err)
	}
	var rounds []watch.Round
	testutil.OK(t, json.Unmarshal([]byte(out), &rounds))
	if len(rounds) != 2 || rounds[1].Number != 2 || rounds[1].Route == nil || rounds[1].Payload["latency"] < 100_000 {
		t.Errorf("%+v", rounds)
	}
	page := filepath.Join(t.TempDir(), "history.html")
	if status, _, problems := command(t, "results", "--history", dir, "--html", page); status != base.ExitDone {
		t.Errorf("status %d: %s", status, problems)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "<svg") {
		t.Errorf("the page: %v", err)
	}
	text, err := os.ReadFile(events)
	testutil.OK(t, err)
	var codes []watch.Code
	for line := range strings.Lines(string(text)) {
		var e watch.Event
		testutil.OK(t, json.Unmarshal([]byte(line), &e))
		if (e.Code == watch.Started) != (e.Format == watch.Format) {
			t.Errorf("%s has the format %q", e.Code, e.Format)
		}
		codes = append(codes, e.Code)
	}
	if part := []watch.Code{watch.Started, watch.RoundEnded, watch.Stopped}; !slices.Equal(codes, slices.Concat(part, part)) {
		t.Errorf("events %v", codes)
	}
}

// A watch goes on without the rounds that its file does not give back, and says so.
func TestDamagedWatch(t *testing.T) {
	dir := t.TempDir()
	watched := func() (int, string, string) {
		return command(t, "watch", "127.0.0.1", "--only", "trace", "--every", "1", "--jitter", "0", "--rounds", "2", "-o", dir)
	}
	watched()
	db, err := sql.Open("sqlite", filepath.Join(dir, store.WatchFileName))
	testutil.OK(t, err)
	_, err = db.Exec("UPDATE round SET json = '{' WHERE number = 2")
	testutil.OK(t, errors.Join(err, db.Close()))
	const says = "watch.sqlite is damaged: 1 round cannot be read and is left out"
	if status, out, problems := watched(); status != base.ExitDone || !strings.Contains(problems, says) || strings.Contains(out, "cannot be") {
		t.Errorf("status %d: %s%s", status, out, problems)
	}
	if status, out, problems := command(t, "results", "--history", dir); status != base.ExitDone || !strings.Contains(out, "3 rounds") || !strings.Contains(out, says) {
		t.Errorf("status %d: %s%s", status, out, problems)
	}
	var rounds []watch.Round
	_, out, problems := command(t, "results", "--history", dir, "--json")
	testutil.OK(t, json.Unmarshal([]byte(out), &rounds))
	if len(rounds) != 3 || rounds[2].Number != 4 || !strings.Contains(problems, says) {
		t.Errorf("%+v, %s", rounds, problems)
	}
}

// A watch whose budget leaves nothing to be measured says so, and for how long.
func TestAWatchWithoutABudgetLeft(t *testing.T) {
	dir := t.TempDir()
	watched := func() (int, string, string) {
		return command(t, "watch", "127.0.0.1:1", "--only", "tcp", "--every", "1", "--jitter", "0", "--rounds", "2", "-o", dir)
	}
	const says = "measured nothing: send moved 1.00 GB the last time, which --budget allows again in about 3 days"
	if status, out, problems := watched(); status != base.ExitDone || strings.Contains(problems, "measured nothing") {
		t.Errorf("before: status %d: %s%s", status, out, problems)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, store.WatchFileName))
	testutil.OK(t, err)
	now := time.Now().UTC().Format(time.RFC3339)
	_, err = db.Exec(`UPDATE round SET json = '{"round":2,"start":"` + now + `","payload_bytes":{"send":1000000000,"receive":2000000000},"budget_left_bytes":-1500000000}' WHERE number = 2`)
	testutil.OK(t, errors.Join(err, db.Close()))
	if status, out, problems := watched(); status != base.ExitDone || strings.Count(problems, says) != 1 {
		t.Errorf("status %d: %s%s", status, out, problems)
	}
}

func TestAWatchOfNobodyIsAnOutage(t *testing.T) {
	port, err := testutil.FreePort()
	testutil.OK(t, err)
	dir := t.TempDir()
	status, out, problems := command(t, "watch", netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port).String(), "--every", "1", "--jitter", "0", "--budget", "0", "--rounds", "2", "-o", dir)
	if n := strings.Count(out, "OUTAGE"); status != base.ExitDone || n != 1 || strings.Contains(out, "CHANGED") {
		t.Errorf("status %d, %d outages: %s%s", status, n, out, problems)
	}
	if _, out, _ := command(t, "results", "--history", dir); !strings.Contains(out, "OUTAGE: the other end is unreachable: ") {
		t.Error(out)
	}
}

func TestWatchesThatCannotBe(t *testing.T) {
	held := t.TempDir()
	w, _, err := store.TakeUpWatch(held, watch.Head{Name: "n", Target: "127.0.0.1"})
	testutil.OK(t, err)
	defer w.Close()
	for _, c := range []struct {
		words  []string
		status int
		says   string
	}{
		{[]string{"127.0.0.1", "-o", held}, base.ExitFailed, "another hopbench"},
		{[]string{"127.0.0.1", "--budget", "50MB"}, base.ExitUsage, "round trips and datagrams alone take"},
		{[]string{"127.0.0.1", "--budget", "much"}, base.ExitUsage, "--budget"},
		{[]string{"127.0.0.1", "--only", "ftp"}, base.ExitUsage, "a watch has trace, rr, udp and tcp"},
		{[]string{"127.0.0.1", "--jitter", "2"}, base.ExitUsage, "--jitter"},
		{[]string{"127.0.0.1", "--jitter", "nan"}, base.ExitUsage, "--jitter"},
		{[]string{"127.0.0.1", "--rounds", "-2"}, base.ExitUsage, "--rounds -2"},
		{[]string{"127.0.0.1", "-B", "eth0"}, base.ExitUsage, `"eth0" is no address to send from`},
		{[]string{"127.0.0.1", "-4", "-B", "::1"}, base.ExitUsage, "the other version of IP"},
		{[]string{"::1", "-4"}, base.ExitUsage, "the other version of IP"},
		{[]string{"127.0.0.1", "-B", "::1"}, base.ExitUsage, "::1 cannot send to 127.0.0.1"},
		{[]string{""}, base.ExitUsage, "no host is named"},
		{[]string{":5201"}, base.ExitUsage, "no host is named"},
		{[]string{"127.0.0.1", "--every", "0.5"}, base.ExitUsage, "--every"},
		{[]string{"127.0.0.1", "--false-alarms", "0"}, base.ExitUsage, "--false-alarms"},
		{[]string{"127.0.0.1", "--false-alarms", "1e-300"}, base.ExitUsage, "from 0.0001 to 1000"},
		{[]string{"127.0.0.1", "--token-file", "/nowhere"}, base.ExitUsage, "token"},
		{[]string{"127.0.0.1", "--quick"}, base.ExitUsage, "--quick has no meaning for a host"},
		{[]string{"aa-null", "--only", "rr"}, base.ExitUsage, "--only has no meaning for an experiment"},
		{[]string{"aa-null", "--blocks", "0"}, base.ExitUsage, "--blocks 0"},
		{[]string{"nowhere.yaml"}, base.ExitUsage, "nowhere.yaml"},
		{nil, base.ExitUsage, "HOST|EXPERIMENT"},
	} {
		status, _, problems := command(t, append([]string{"watch", "--rounds", "1", "-o", filepath.Join(t.TempDir(), "w")}, c.words...)...)
		if status != c.status || !strings.Contains(problems, c.says) {
			t.Errorf("%v: status %d, want %d; it says %s", c.words, status, c.status, problems)
		}
	}
	for names, only := range map[string]string{"latency": "rr", "datagrams send receive": "udp,tcp"} {
		f := watchFlags{only: strings.Split(only, ","), every: experimentEvery}
		f.host.Port = 5201
		if _, _, head, err := f.subject(base.Streams{}, "127.0.0.1"); err != nil || strings.Join(head.Rules.Tests, " ") != names || head.Rules.Series != 3 {
			t.Errorf("%s: %+v, %v", only, head.Rules, err)
		}
	}
	if status, _, problems := command(t, "watch", "127.0.0.1", "--rounds", "1", "--name", "../x"); status != base.ExitUsage || !strings.Contains(problems, "--name ../x: this is a folder") {
		t.Errorf("status %d; it says %s", status, problems)
	}
	t.Chdir(filepath.Dir(held))
	for words, says := range map[string]string{"--history ../" + filepath.Base(held): "no watch in this folder", "--history nowhere": "no watch in this folder", "--html page": "--history", "folder --history x": "leave the folder"} {
		if status, _, problems := command(t, append([]string{"results"}, strings.Fields(words)...)...); status != base.ExitUsage || !strings.Contains(problems, says) {
			t.Errorf("results %s: status %d; it says %s", words, status, problems)
		}
	}
}

// A server that goes away in the middle of a round, and a name that is not found, are an
// outage; a test that fails by itself is none.
func TestOutagesOfAWatch(t *testing.T) {
	f := watchFlags{}
	tests, err := f.watchTests()
	testutil.OK(t, err)
	all := func(string) bool { return true }
	refused := func(_ context.Context, r probe.Request, _ func(measurement.Progress)) (measurement.Outcome, error) {
		if r.Spec.Kind == measurement.Trace {
			return directtest.Path(t.Context(), r, nil)
		}
		return measurement.Outcome{}, &probe.Error{Op: "connect", Reason: probe.Refused, Err: &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("refused")}}
	}
	r, err := f.measureHost(testcmd.Target{Name: "127.0.0.1", Port: 1}, tests, refused)(t.Context(), all)
	if err != nil || !r.Outage || len(r.Failed) != 1 {
		t.Errorf("refused: %+v, %v", r, err)
	}
	f.host.V6 = true
	if r, err = f.measureHost(testcmd.Target{Name: "127.0.0.1", Port: 1}, tests, refused)(t.Context(), all); err != nil || !r.Outage {
		t.Errorf("no address: %+v, %v", r, err)
	}
	f.host.V6 = false
	r, err = f.measureHost(testcmd.Target{Name: "127.0.0.1", Port: 1}, tests, directtest.Path)(t.Context(), func(test string) bool { return test != "send" })
	if err != nil || r.Outage || !slices.Equal(r.Skipped, []string{"send"}) {
		t.Errorf("the budget does not allow one: %+v, %v", r, err)
	}
	if len(r.Points) == 0 {
		t.Errorf("no points: %+v", r.Failed)
	}
}

// An interface that is named with the host is that of each test that can take one.
// What a run moved before it failed is taken from the budget all the same.
func TestARunThatEndsEarlyIsPaidFor(t *testing.T) {
	measured := &result.Result{Tests: []result.TestInfo{{Name: "flow", Spec: measurement.Spec{Kind: measurement.TCP, Duration: 10}}}}
	measured.Trials = []measurement.Trial{{Path: "direct", Test: "flow", Gate: measurement.Gate{Passed: true}, Outcome: measurement.Outcome{Metrics: measurement.Metrics{"goodput_bits_per_second": 8e9}}}}
	r := roundOf("run", measured, errors.New("the agent is gone"))
	if !r.Outage || r.Payload["run"] != 10e9 || len(r.Points) > 0 || len(r.Failed) != 1 || r.Failed[0].Error != "the agent is gone" {
		t.Errorf("%+v", r)
	}
	if r := roundOf("run", measured, nil); r.Outage || r.Payload["run"] != 10e9 || len(r.Failed) > 0 {
		t.Errorf("%+v", r)
	}
	if r := roundOf("run", nil, nil); !r.Outage || len(r.Failed) != 1 || r.Payload != nil {
		t.Errorf("%+v", r)
	}
}

func TestWatchOverAnInterface(t *testing.T) {
	f := watchFlags{host: testcmd.Host{Port: measurement.DefaultPort}}
	_, tests, _, err := f.subject(base.Streams{}, "127.0.0.1%lo")
	testutil.OK(t, err)
	for _, test := range tests {
		if over := test.Spec.Device == "lo"; over != (test.Spec.Kind != measurement.Trace) {
			t.Errorf("%s goes over %q", test.Name, test.Spec.Device)
		}
	}
}

// A watch goes on with the same measurement alone, whatever its files say besides.
func TestAWatchOfAnExperimentIsOfOneMeasurement(t *testing.T) {
	dir := t.TempDir()
	text, err := experiments.Read("aa-null")
	testutil.OK(t, err)
	file, kept := filepath.Join(dir, "mine.yaml"), filepath.Join(dir, "w")
	begin := func(text string, more runFlags) error {
		testutil.OK(t, os.WriteFile(file, []byte(text), 0o600))
		f := watchFlags{run: more}
		_, _, head, err := f.subject(base.Streams{}, file)
		testutil.OK(t, err)
		w, _, err := store.TakeUpWatch(kept, head)
		if err == nil {
			testutil.OK(t, w.Close())
		}
		return err
	}
	testutil.OK(t, begin(string(text), runFlags{}))
	testutil.OK(t, begin("# a remark\n"+strings.Replace(string(text), `title: "`, `title: "My `, 1), runFlags{}))
	testutil.OK(t, begin(strings.NewReplacer("title: the same again", "title: the other one", "title: 1 flow", "title: one flow").Replace(string(text)), runFlags{}))
	for name, err := range map[string]error{
		"blocks": begin(string(text), runFlags{blocks: 7}),
		"quick":  begin(string(text), runFlags{quick: true}),
		"a test": begin(strings.Replace(string(text), "duration: ", "duration: 1", 1), runFlags{}),
	} {
		if err == nil || !strings.Contains(err.Error(), "have changed since") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What matters to a watch of an experiment is what its file says, where the command line does
// not say otherwise.
func TestAWatchOfAnExperimentKnowsWhatMatters(t *testing.T) {
	text, err := experiments.Read("aa-null")
	testutil.OK(t, err)
	file := filepath.Join(t.TempDir(), "mine.yaml")
	testutil.OK(t, os.WriteFile(file, append(text, "\nmatters: {goodput: 20%, rtt_p50: 1ms}\n"...), 0o600))
	var f watchFlags
	testutil.OK(t, f.matters.Set("rtt_p50=2ms"))
	_, _, head, err := f.subject(base.Streams{}, file)
	testutil.OK(t, err)
	if m := head.Rules.Matters; len(m) != 2 || m["goodput_bits_per_second"].Fraction != 0.2 || m["rtt_p50_seconds"].Amount != 2e-3 {
		t.Errorf("%v", m)
	}
	f = watchFlags{}
	_, _, head, err = f.subject(base.Streams{}, "aa-null")
	testutil.OK(t, err)
	if head.Rules.Matters != nil { // as it is read back
		t.Errorf("%v", head.Rules.Matters)
	}
}

// All series of an experiment share its false alarms, however many comparisons it makes.
func TestSeriesOfAnExperiment(t *testing.T) {
	e := &experiment.Experiment{Baseline: "a", Tests: []experiment.Test{{Name: "udp", Spec: measurement.Spec{Kind: measurement.UDP}}}}
	for _, name := range []string{"a", "b", "c", "d"} {
		for _, before := range e.Paths {
			e.Contrasts = append(e.Contrasts, result.Contrast{Path: name, Baseline: before.Name})
		}
		e.Paths = append(e.Paths, experiment.Path{Name: name})
	}
	of := func() (effects []result.Effect) {
		for _, c := range e.Comparisons() {
			for _, metric := range []string{"goodput_bits_per_second", "loss_fraction"} {
				effects = append(effects, result.Effect{Path: c.Path, Baseline: c.Baseline, Test: "udp", Metric: metric, N: 6, ReferenceMedian: 1, Ratio: 1, Primary: true})
			}
		}
		return effects
	}
	for _, contrasts := range [][]result.Contrast{e.Contrasts, nil} {
		e.Contrasts = contrasts
		var r watch.Round
		if r.AddRun("run", &result.Result{Costs: of()}); len(r.Points) != seriesOf(e) {
			t.Errorf("%d comparisons: %d series are reckoned with, and a round has %d", len(contrasts), seriesOf(e), len(r.Points))
		}
	}
}

func TestCompletionOfWatchAndCompare(t *testing.T) {
	for line, want := range map[string]string{"watch aa-": "aa-null", "watch --only ": "udp", "watch --only rr,": "rr,udp", "compare --fail-on cost,": "cost,published"} {
		words := strings.Split(line, " ")
		if _, out, _ := command(t, append([]string{"__complete"}, words...)...); !slices.Contains(strings.Fields(out), want) {
			t.Errorf("%s: %q", line, out)
		}
	}
}

// docs/watch.md has each flag.
func TestEveryFlagOfWatchIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/watch.md")
	testutil.OK(t, err)
	for name := range flagsOf(watchCommand(base.Streams{})) {
		if !strings.Contains(string(page), "`--"+name) {
			t.Errorf("docs/watch.md lacks --%s", name)
		}
	}
}

func flagsOf(c *cobra.Command) map[string]bool {
	names := map[string]bool{}
	for line := range strings.Lines(c.Flags().FlagUsages()) {
		if _, flag, found := strings.Cut(line, "--"); found {
			names[strings.Fields(flag)[0]] = true
		}
	}
	return names
}

// stuck is a terminal that was stopped until it goes on.
type stuck struct{ goOn chan struct{} }

func (s stuck) Write(p []byte) (int, error) {
	<-s.goOn
	return len(p), nil
}

// A watch whose terminal was stopped goes on, and ends when it is told to.
func TestWatchOnAStoppedTerminal(t *testing.T) {
	dir, terminal := t.TempDir(), stuck{make(chan struct{})}
	defer close(terminal.goOn)
	status := Main([]string{"watch", "127.0.0.1", "--only", "trace", "--every", "1", "--jitter", "0", "--rounds", "2", "-V", "-o", dir}, nil, terminal, io.Discard)
	w, _, err := store.OpenWatch(dir)
	testutil.OK(t, err)
	defer w.Close()
	if rounds, _, err := w.Rounds(t.Context()); status != base.ExitDone || err != nil || len(rounds) != 2 {
		t.Errorf("status %d, %d rounds, %v", status, len(rounds), err)
	}
}

// What a killed watch left is removed at a later round, and nothing of anybody else.
func TestRoundsOfKilledWatches(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	t.Setenv("TMP", temporary) // Windows
	old := time.Now().Add(-time.Hour)
	for name, c := range map[string]struct {
		held, recent, stays bool
	}{
		roundFolder + "1":     {},
		roundFolder + "2":     {held: true, stays: true},
		roundFolder + "3":     {recent: true, stays: true},
		roundFolder + "4mine": {stays: true},
		"hopbench-watch-5":    {stays: true},
	} {
		run := filepath.Join(temporary, name, runInRound)
		testutil.OK(t, os.MkdirAll(run, 0o700))
		if c.held {
			lock, err := store.Lock(run)
			testutil.OK(t, err)
			defer lock.Close()
		}
		if !c.recent {
			testutil.OK(t, os.Chtimes(filepath.Dir(run), old, old))
		}
		defer func() {
			if _, err := os.Stat(run); (err == nil) != c.stays {
				t.Errorf("%s: %v", name, err)
			}
		}()
	}
	removeLeftRounds()
}

// Where no folder for a round can be made, the outage says which setting that is.
func TestARoundWithoutAFolder(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	t.Setenv("TMPDIR", none)
	t.Setenv("TMP", none) // Windows
	var f watchFlags
	if _, err := f.runOnce(t.Context(), store.Head{}); err == nil || !strings.Contains(err.Error(), "TMPDIR") {
		t.Error(err)
	}
}
