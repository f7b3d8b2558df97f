package fleet

import (
	"database/sql"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/fleet/samples"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testutil"
)

var (
	gone    = regexp.MustCompile(`machine (\S+) is gone`)
	stopped = regexp.MustCompile(`^\d+ machines? stopped during the run, .*: (.+)\. Trials`)
)

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
		var away []string
		for _, who := range gone.FindAllStringSubmatch(text, -1) {
			away = append(away, who[1])
		}
		if all := stopped.FindStringSubmatch(text); all != nil {
			away = append(away, strings.Split(all[1], ", ")...)
		}
		for _, who := range away {
			if !r.gone[who] {
				t.Errorf("%s was never away for long, and it is said: %s", who, text)
			}
		}
	}
	if r.resumed && !strings.Contains(text, "was resumed after") {
		t.Errorf("the report does not say that the run was resumed: %q", said)
	}
	for while, names := range r.lost {
		named := func(name string) bool {
			return slices.ContainsFunc(said, func(text string) bool { return strings.Contains(text, name) })
		}
		if !slices.ContainsFunc(names, named) {
			t.Errorf("of %v something failed in the middle of a trial (%+v), and nothing names it: %q", names, while, said)
		}
	}
	for _, kept := range []string{"report.md", "trials.csv"} {
		if info, err := os.Stat(filepath.Join(r.folder, kept)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", kept, err)
		}
	}
	r.samples(passed)
	testutil.OK(t, os.RemoveAll(r.folder))
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
		if passed[o.trial] && o.attempt == latest[o.trial] && !some[o] && !r.gone[agent] {
			t.Errorf("no samples of %+v by %s, which was never gone", o, agent)
		}
	}
}
