// Package store keeps the trials of one run in its folder, in a SQLite file
// named run.sqlite. What is measured is written once, as it came, so that
// every later table can be made again from it. A trial is on disk when Put
// returns: killing the program at any moment loses at most the trial that was
// being measured.
package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// FileName is the store's file inside a run folder.
const FileName = "run.sqlite"

// ErrNoRun says that a folder holds no run.
var ErrNoRun = errors.New("no run in this folder")

// ErrBusy says that another process is writing the run.
var ErrBusy = errors.New("another hopbench is writing in this folder")

// Head is what is known of a run before its first trial: enough to plan it
// again, and to resume it.
type Head struct {
	// Experiment is the file's text, File where it came from: absolute, because
	// the names of rule files are relative to it.
	Experiment string `json:"experiment"`
	File       string `json:"file"`
	// Argument is what the user named it by: a bundled name or a path.
	Argument string `json:"argument"`
	// Name is the experiment's name, for listings.
	Name string `json:"name"`
	Seed uint64 `json:"seed"`
	// Blocks, Duration, Full and Quick are the command line's overrides.
	Blocks   int                 `json:"blocks,omitempty"`
	Duration measurement.Seconds `json:"duration_seconds,omitempty"`
	Full     bool                `json:"full,omitempty"`
	Quick    bool                `json:"quick,omitempty"`
	// TwoStage says that the plan has two stages, because switching paths takes long.
	TwoStage bool `json:"two_stage,omitempty"`
	// Explain asks for further trials where it cannot be told what limits a test, and
	// Variations are those that were chosen, without their trials.
	Explain    bool               `json:"explain,omitempty"`
	Variations []result.Variation `json:"variations,omitempty"`
	// Matters are the command line's margins, by metric.
	Matters map[string]measurement.Margin `json:"matters,omitempty"`

	// TestbedFile is the testbed file of a run on hosts, nil of one in a lab.
	TestbedFile *File `json:"testbed_file,omitempty"`

	// Test is what a run of hopbench test has in the place of an experiment file,
	// nil of others.
	Test *Test `json:"test,omitempty"`

	Planned int `json:"planned_trials"`
	// RuleFiles are the SHA-256 digests, in hexadecimal, of the rule files that the
	// experiment names, by their names there; nil in a run of a hopbench that did
	// not keep them.
	RuleFiles map[string]string `json:"rule_files_sha256"`
	Testbed   result.Testbed    `json:"testbed"`
	// Environment is that of the first session, Resumed are the others.
	Environment map[string]string `json:"environment"`
	Resumed     []result.Session  `json:"resumed,omitempty"`
	Started     time.Time         `json:"started"`
	// Repeated are the blocks that an interruption tore and that were done again.
	Repeated []RepeatedBlock `json:"repeated_blocks,omitempty"`
	// Notes are sentences about the run itself, such as a testbed that had to
	// be built again.
	Notes []string `json:"notes,omitempty"`
}

// File is a file that a run was given.
type File struct {
	Name string `json:"name"` // absolute
	Text string `json:"text"`
}

// RepeatedBlock is a block some of whose trials were set aside.
type RepeatedBlock struct {
	Block  int `json:"block"`
	Trials int `json:"trials"` // that were set aside
}

// Test is a run of hopbench test.
type Test struct {
	Title   string   `json:"title"`
	Command []string `json:"command"`
	// Paths are the one that was tested, or those that were compared, the baseline
	// first.
	Paths []result.PathInfo `json:"paths"`
	Tests []result.TestInfo `json:"tests"`
	// Profile says that the tests are a profile. BottleneckBitsPerSecond is then
	// the bandwidth against which it is rated, 0 if the user gave none.
	Profile                 bool    `json:"profile,omitempty"`
	BottleneckBitsPerSecond float64 `json:"bottleneck_bits_per_second,omitempty"`
}

// Note keeps a sentence about the run, once, and says whether it is new.
func (h *Head) Note(sentence string) bool {
	if slices.Contains(h.Notes, sentence) {
		return false
	}
	h.Notes = append(h.Notes, sentence)
	return true
}

// version is that of the tables, the file's user_version. Version 1 had further
// columns and a table of metrics that nothing read; it is still read.
const version = 2

const schema = `CREATE TABLE head (
		id   INTEGER PRIMARY KEY CHECK (id = 1),
		json TEXT NOT NULL
	) STRICT;
	CREATE TABLE trial (
		id          TEXT PRIMARY KEY,
		order_index INTEGER NOT NULL,
		start_utc   TEXT NOT NULL,
		json        TEXT NOT NULL
	) STRICT;`

// create makes the tables, unless they are there.
func create(tx *sql.Tx) error {
	var have int
	if err := tx.QueryRow("PRAGMA user_version").Scan(&have); err != nil || have == version {
		return err
	}
	_, err := tx.Exec(fmt.Sprintf("%s PRAGMA user_version = %d", schema, version))
	return err
}

// Head reads what is known of the run.
func (s *Store) Head() (Head, error) {
	var head Head
	if err := document(s.db, "SELECT json FROM head WHERE id = 1", &head); err != nil {
		return Head{}, fmt.Errorf("read the head of %s: %w", s.dir, err)
	}
	return head, nil
}

// SetHead replaces what is known of the run.
func (s *Store) SetHead(head Head) error {
	if err := s.inTransaction(func(tx *sql.Tx) error { return setHead(tx, head) }); err != nil {
		return fmt.Errorf("write the head of %s: %w; %s", s.dir, err, why(err))
	}
	return nil
}

func setHead(tx *sql.Tx, head Head) error {
	return insert(tx, "INSERT INTO head (id, json) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET json = excluded.json", head)
}

// Put keeps a trial. A trial's id is written once: a second Put of the same
// id is an error, so that nothing is ever counted twice.
func (s *Store) Put(ctx context.Context, t measurement.Trial) error {
	text, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("encode trial %s: %w", t.ID, err)
	}
	err = s.inTransaction(func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO trial (id, order_index, start_utc, json) VALUES (?, ?, ?, ?)",
			t.ID, t.Order, t.Start.UTC().Format(time.RFC3339Nano), string(text))
		return err
	})
	if err != nil {
		return fmt.Errorf("store trial %s in %s: %w; %s", t.ID, s.dir, err, why(err))
	}
	return nil
}

// SetAside takes trials out of those that count, so that they can be done again, and
// keeps the head that says so. All of it happens or nothing.
func (s *Store) SetAside(ctx context.Context, ids []string, head Head) error {
	err := s.inTransaction(func(tx *sql.Tx) error {
		// Few runs need it; what is in it has no key, as a trial can be set aside twice.
		if _, err := tx.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS set_aside (id TEXT NOT NULL, start_utc TEXT NOT NULL, json TEXT NOT NULL) STRICT"); err != nil {
			return err
		}
		for _, id := range ids {
			if _, err := tx.ExecContext(ctx, "INSERT INTO set_aside (id, start_utc, json) SELECT id, start_utc, json FROM trial WHERE id = ?", id); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, "DELETE FROM trial WHERE id = ?", id); err != nil {
				return err
			}
		}
		return setHead(tx, head)
	})
	if err != nil {
		return fmt.Errorf("set trials of %s aside: %w; %s", s.dir, err, why(err))
	}
	return nil
}

// Trials reads every trial of the plan that was not set aside, in the order they were
// planned.
func (s *Store) Trials(ctx context.Context) (trials []measurement.Trial, err error) {
	return s.ordered(ctx, "order_index >= 0")
}

// Variations reads the trials of the tests that were done again: their order is below 0,
// as it is not that of the plan.
func (s *Store) Variations(ctx context.Context) ([]measurement.Trial, error) {
	return s.ordered(ctx, "order_index < 0")
}

// ordered reads trials. It is not SQLite that sorts them, which writes all documents into a
// temporary file for that.
func (s *Store) ordered(ctx context.Context, which string) ([]measurement.Trial, error) {
	trials, err := documents[measurement.Trial](ctx, s.db, "the trials of "+s.dir, "SELECT json FROM trial WHERE "+which)
	slices.SortStableFunc(trials, byOrder)
	return trials, err
}

// byOrder has trials in the order of the plan, and then those away from it.
func byOrder(a, b measurement.Trial) int {
	if a.Order < 0 || b.Order < 0 {
		return cmp.Compare(b.Order, a.Order)
	}
	return cmp.Compare(a.Order, b.Order)
}

// Readable reads the trials of the plan and then those of variations, of a damaged file
// as many as it can, and says how many it cannot.
func (s *Store) Readable(ctx context.Context) (trials []measurement.Trial, lost int, err error) {
	trials, err = s.Trials(ctx)
	if err == nil {
		var varied []measurement.Trial
		varied, err = s.Variations(ctx)
		trials = append(trials, varied...)
	}
	if errors.Is(err, ErrDamaged) {
		if rest, lost, other := s.oneByOne(ctx); len(rest) > 0 || other != nil {
			return rest, lost, other
		}
	}
	return trials, 0, err
}

// oneByOne is Readable for a file that is damaged: the ids are in pages of their own, from
// which the way to a trial does not lead through those of others.
func (s *Store) oneByOne(ctx context.Context) (trials []measurement.Trial, lost int, err error) {
	var ids string
	if err := s.db.QueryRowContext(ctx, "SELECT json_group_array(id) FROM trial").Scan(&ids); err != nil {
		return nil, 0, fmt.Errorf("read which trials are in %s: %w", s.dir, damaged(err))
	}
	var all []string
	if err := json.Unmarshal([]byte(ids), &all); err != nil {
		return nil, 0, fmt.Errorf("read which trials are in %s: %w: %w", s.dir, ErrDamaged, err)
	}
	for _, id := range all {
		var text string
		var t measurement.Trial
		err := s.db.QueryRowContext(ctx, "SELECT json FROM trial WHERE id = ?", id).Scan(&text)
		switch {
		case err == nil && json.Unmarshal([]byte(text), &t) == nil && t.ID == id:
			trials = append(trials, t)
		case err == nil || errors.Is(err, sql.ErrNoRows) || errors.Is(damaged(err), ErrDamaged):
			lost++
		default:
			return nil, 0, fmt.Errorf("read trial %s of %s: %w", id, s.dir, err)
		}
	}
	slices.SortStableFunc(trials, byOrder)
	return trials, lost, nil
}

// Count is how many trials of the plan are stored and when the last one started; the time
// is zero when there is none.
func (s *Store) Count(ctx context.Context) (trials int, last time.Time, err error) {
	var text sql.NullString
	if err := s.db.QueryRowContext(ctx, "SELECT count(*), max(start_utc) FROM trial WHERE order_index >= 0").Scan(&trials, &text); err != nil {
		return 0, time.Time{}, fmt.Errorf("count the trials of %s: %w", s.dir, err)
	}
	if text.Valid {
		last, err = time.Parse(time.RFC3339Nano, text.String)
	}
	return trials, last, err
}
