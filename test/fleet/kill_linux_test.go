package fleet

import (
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/cli"
	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/fleet/samples"
	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testbed/labtest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// Of TestKilledRuns.
var (
	seeds     = flag.Int("seeds", 1, "how many runs")
	firstSeed = flag.Uint64("first", 1, "seed of the first run; each of the others has the next")
	kills     = flag.Int("kills", 3, "what is killed of each run")
)

// The roles of this program in nodes: hopbench, and what passes on a machine's connection.
const (
	hopbenchRole = "hopbench"
	relayRole    = "relay"
)

func TestMain(m *testing.M) {
	if code, handled := labtest.Role(os.Args); handled {
		os.Exit(code)
	}
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case hopbenchRole:
			os.Exit(cli.Main(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
		case relayRole:
			fmt.Fprintln(os.Stderr, relay(os.Args[2], os.Args[3])) // it returns only if it fails
			os.Exit(1)
		}
	}
	goleak.VerifyTestMain(m)
}

// relay passes connections on until it is killed, which cuts them.
func relay(at, to string) error {
	listener, err := net.Listen("tcp", at)
	for err == nil {
		var near net.Conn
		if near, err = listener.Accept(); err == nil {
			go pass(near, to)
		}
	}
	return err
}

func pass(near net.Conn, to string) {
	defer near.Close()
	far, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	var ways sync.WaitGroup
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		ways.Go(func() {
			_, _ = io.Copy(way[0], way[1]) // one end is gone
			_, _ = near.Close(), far.Close()
		})
	}
	ways.Wait()
}

const experimentText = `format: hopbench.experiment/1
name: killed
endpoints: [{name: client}, {name: server}]
source: client
destination: server
pairs: 3
baseline: direct
blocks: 3
paths:
  - {name: direct, hops: [{type: router, name: fabric}]}
  - {name: firewall, hops: [{type: router, name: fabric}, {type: firewall, name: fw, rules: 10, rate: 300Mbit}]}
tests: [{name: bulk, kind: tcp, flows: 2, duration: 500ms, max_warmup: 100ms}]
`

// Machines reach the broker, where a testbed file says nothing else, by relays before it.
const (
	joinPort  = 5203
	relayPort = 5204
)

// killed is a run of which parts are killed.
type killed struct {
	*labtest.Fleet
	t      *testing.T
	random *rand.Rand
	self   string
	folder string // of the run
	// agents and relays are those of the machines, in their order.
	agents, relays []*labtest.Program
	coordinator    *labtest.Program

	victims []string // in order: names of machines, cut NAME, coordinator
	// lost are the machines that were killed while the testbed was the same, the first of them
	// in the middle of a trial: the report names one at least.
	lost     map[life][]string
	sessions int      // of the run, so far
	ended    []string // why the run ended early by itself
}

// TestKilledRuns kills agents, connections and the coordinator of a fleet at random moments of
// a run, by fixed seeds. Whatever is killed comes back at once, as a service does, and a run
// that ended is resumed. In the end each trial of the plan is there once, no sample is there
// twice, and the report says who was gone.
func TestKilledRuns(t *testing.T) {
	for _, f := range lab.Check(t.Context()) {
		testutil.Need(t, f.OK || !f.Required, f.Name+": "+f.Detail)
	}
	self, err := os.Executable()
	testutil.OK(t, err)
	fleet, err := labtest.NewFleet(t.Context(), []byte(experimentText))
	testutil.OK(t, err)
	defer func() { testutil.OK(t, fleet.Close()) }()
	counts := map[string]int{}
	for i := range *seeds {
		seed := *firstSeed + uint64(i)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := &killed{Fleet: fleet, t: t, lost: map[life][]string{}, random: rand.New(rand.NewPCG(23, seed)), self: self, folder: filepath.Join(fleet.Folder, fmt.Sprint("run-", seed))}
			began := time.Now()
			r.run(seed)
			r.check()
			t.Logf("%v: killed %s; %d sessions, ended %q, lost in trials: %v", time.Since(began).Round(time.Second), strings.Join(r.victims, ", "), r.sessions, r.ended, r.lost)
			for _, v := range r.victims {
				kind, _, _ := strings.Cut(strings.ReplaceAll(v, " ", "-"), "-")
				counts[kind]++
			}
		})
	}
	t.Logf("killed in all: %v", counts)
}

// nextTrial stands for the moment, in seconds since 1970, at which one begins.
const nextTrial = 1 << 40

// life is that of a testbed, from when it is built until it broke.
type life struct{ session, faults int }

// longest is what a run may take with all that is killed, at whatever speed.
const longest = 5 * time.Minute

// run does the run, to its end.
func (r *killed) run(seed uint64) {
	ctx, cancel := context.WithTimeout(r.t.Context(), longest)
	defer cancel()
	relayed := func(a netip.Addr) string { return netip.AddrPortFrom(a, relayPort).String() }
	startRelay := func(i int) {
		a := r.Machines[i].Coordinator
		r.relays[i] = r.start(labtest.CoordinatorNode, relayRole, relayed(a), netip.AddrPortFrom(a, joinPort).String())
	}
	startAgent := func(i int) {
		m := r.Machines[i]
		r.agents[i] = r.start(m.Name, append([]string{hopbenchRole}, m.Agent(relayed(m.Coordinator))...)...)
	}
	r.agents, r.relays = make([]*labtest.Program, len(r.Machines)), make([]*labtest.Program, len(r.Machines))
	for i := range r.Machines {
		startRelay(i)
		startAgent(i)
	}
	goOn := func() {
		args := []string{"--resume", r.folder}
		if _, err := os.Stat(filepath.Join(r.folder, store.FileName)); err != nil {
			args = []string{labtest.ExperimentFile, "--testbed", labtest.TestbedFile, "-o", r.folder, "--seed", fmt.Sprint(seed)}
		}
		r.sessions++
		r.coordinator = r.start(labtest.CoordinatorNode, append([]string{hopbenchRole, "run", "--events", r.events()}, args...)...)
	}
	goOn()
	defer func() {
		for _, p := range append(slices.Concat(r.agents, r.relays), r.coordinator) {
			p.Kill()
		}
	}()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	var due time.Time // of the next
	for {
		select {
		case <-r.coordinator.Done():
			err := r.coordinator.Err()
			if err == nil {
				return
			}
			if r.ended = append(r.ended, err.Error()); len(r.ended) > *kills {
				r.t.Fatalf("it does not come to its end: %s", strings.Join(r.ended, "\n"))
			}
			goOn()
		case <-poll.C:
			if len(r.victims) == *kills {
				continue
			}
			under, left, while := r.progress()
			switch {
			case due.IsZero() && r.random.IntN(4) == 0: // at whatever moment
				due = time.Now().Add(time.Duration(r.random.Int64N(int64(3 * time.Second))))
			case due.IsZero():
				due = time.Unix(nextTrial, 0)
			case due.Unix() == nextTrial && under:
				due = time.Now().Add(time.Duration(r.random.Int64N(int64(700 * time.Millisecond))))
			}
			if time.Now().Before(due) {
				continue
			}
			due = time.Time{}
			i := r.random.IntN(len(r.Machines))
			name, kind := r.Machines[i].Name, r.random.IntN(5)
			if kind == 0 {
				r.victims = append(r.victims, "coordinator")
				delete(r.lost, while) // it may not have noticed
				r.coordinator.Kill()
				goOn()
				continue
			}
			if under && left > 1 || len(r.lost[while]) > 0 { // who is lost behind the last trial is not missed
				r.lost[while] = append(r.lost[while], name)
			}
			if kind == 1 {
				r.victims = append(r.victims, "cut "+name)
				r.relays[i].Kill()
				startRelay(i)
			} else {
				r.victims = append(r.victims, name)
				r.agents[i].Kill()
				startAgent(i)
			}
		case <-ctx.Done():
			text := r.coordinator.Said()
			for _, a := range r.agents {
				text += "\n" + a.Said()
			}
			r.t.Fatalf("killed %v, and not at its end after %v: %s", r.victims, longest, text)
		}
	}
}

// events is the file of the steps of the present session.
func (r *killed) events() string { return fmt.Sprint(r.folder, "-events-", r.sessions) }

// progress says whether a trial goes on, how many are left of the run, and of which testbed.
func (r *killed) progress() (under bool, left int, while life) {
	while.session = r.sessions
	text, err := os.ReadFile(r.events())
	if err != nil {
		return false, 0, while // not there yet
	}
	for line := range strings.Lines(string(text)) {
		var e event.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			break // it is being written
		}
		left = e.Planned - e.Done
		switch e.Code {
		case event.TrialStarted:
			under = true
		case event.TrialEnded:
			under = false
		case event.Fault:
			under = false
			while.faults++
		}
	}
	return under, left, while
}

func (r *killed) start(node string, args ...string) *labtest.Program {
	r.t.Helper()
	p, err := r.Start(node, append([]string{r.self}, args...)...)
	testutil.OK(r.t, err)
	return p
}

var gone = regexp.MustCompile(`machine (\S+) is gone`)

// check says what is not as it should be of the run.
func (r *killed) check() {
	t := r.t
	st, err := store.Open(r.folder)
	testutil.OK(t, err)
	defer func() { testutil.OK(t, st.Close()) }()
	head, err := st.Head()
	testutil.OK(t, err)
	_, plan, err := runner.Prepare(head)
	testutil.OK(t, err)
	document, err := os.ReadFile(filepath.Join(r.folder, "result.json"))
	testutil.OK(t, err)
	all, _, err := result.Decode(document)
	testutil.OK(t, err)
	tally := map[string]int{}
	passed := map[string]bool{}
	var said []string
	for _, one := range all.Trials {
		tally[one.ID]++
		passed[one.ID] = one.Gate.Passed
		for _, f := range one.Gate.Findings {
			said = append(said, append(f.Pairs, f.Text)...)
		}
	}
	for _, p := range plan.Trials {
		if tally[p.ID] != 1 {
			t.Errorf("trial %s is there %d times", p.ID, tally[p.ID])
		}
	}
	if len(tally) != len(plan.Trials) || !all.Complete {
		t.Errorf("%d trials of %d planned, complete %v", len(tally), len(plan.Trials), all.Complete)
	}
	for _, p := range all.Testbed.Paths {
		if p.Proof != result.ProofTrace {
			t.Errorf("path %s is proven by %s", p.Name, p.Proof)
		}
	}
	report, err := os.ReadFile(filepath.Join(r.folder, "report.html"))
	testutil.OK(t, err)
	text := html.UnescapeString(string(report))
	for _, n := range head.Notes {
		said = append(said, n)
		if !strings.Contains(text, strings.SplitN(n, ":", 2)[0]) {
			t.Errorf("the report does not say: %s", n)
		}
	}
	for _, text := range said {
		for _, who := range gone.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(r.victims, who[1]) && !slices.Contains(r.victims, "cut "+who[1]) {
				t.Errorf("%s was not killed, and it is said: %s", who[1], text)
			}
		}
	}
	for while, names := range r.lost {
		named := func(name string) bool {
			return slices.ContainsFunc(said, func(text string) bool { return strings.Contains(text, name) })
		}
		if !slices.ContainsFunc(names, named) {
			t.Errorf("of %v something was killed in the middle of a trial (%+v), and nothing names it: %q", names, while, said)
		}
	}
	r.samples(passed)
}

// samples checks those of all attempts: no flow of one has two at a moment, each is of an
// attempt that was begun, and who was never killed has some of each trial that counts.
func (r *killed) samples(passed map[string]bool) {
	t := r.t
	db, err := sql.Open("sqlite", filepath.Join(r.folder, store.FileName))
	testutil.OK(t, err)
	defer db.Close()
	type of struct {
		trial         string
		seat, attempt int
	}
	begun, latest := map[of]string{}, map[string]int{}
	rows, err := db.Query("SELECT trial, seat, attempt, agent FROM attempt")
	testutil.OK(t, err)
	for rows.Next() {
		var o of
		var agent string
		testutil.OK(t, rows.Scan(&o.trial, &o.seat, &o.attempt, &agent))
		begun[o] = agent
		latest[o.trial] = max(latest[o.trial], o.attempt)
	}
	testutil.OK(t, rows.Err())
	coder, err := samples.NewCoder()
	testutil.OK(t, err)
	type moment struct {
		of
		flow int
		at   time.Duration
	}
	seen, some := map[moment]bool{}, map[of]bool{}
	rows, err = db.Query("SELECT data FROM sample")
	testutil.OK(t, err)
	for rows.Next() {
		var data []byte
		testutil.OK(t, rows.Scan(&data))
		b, err := samples.Read(data)
		testutil.OK(t, err)
		counted, err := coder.Samples(b)
		testutil.OK(t, err)
		key := of{b.Trial, b.Seat, b.Attempt}
		some[key] = true
		if begun[key] == "" {
			t.Errorf("samples of %+v, which was never begun", key)
		}
		for _, s := range counted {
			m := moment{key, s.Flow, s.At}
			if seen[m] {
				t.Errorf("two samples of %+v", m)
			}
			seen[m] = true
		}
	}
	testutil.OK(t, rows.Err())
	for o, agent := range begun {
		if passed[o.trial] && o.attempt == latest[o.trial] && !some[o] && !slices.Contains(r.victims, agent) {
			t.Errorf("no samples of %+v by %s, which was not killed", o, agent)
		}
	}
}
