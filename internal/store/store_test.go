package store_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testutil"
)

var background = context.Background()

func head() store.Head {
	return store.Head{
		Experiment: "format: x\n", File: "x.yaml", Name: "x", Seed: 1<<63 + 7, Planned: 4,
		Testbed:     result.Testbed{Kind: "lab", Relative: true},
		Environment: map[string]string{"kernel": "6.18"},
		Started:     time.Date(2026, 11, 21, 8, 0, 0, 123, time.UTC),
	}
}

func trial(order int) measurement.Trial {
	return measurement.Trial{
		ID: fmt.Sprintf("b01-p-t%d", order), Block: 1, Order: order, Path: "p", Test: "t",
		Start: time.Date(2026, 11, 21, 8, 0, order, 5, time.UTC),
		Gate:  measurement.Gate{Passed: order%2 == 1},
		Outcome: measurement.Outcome{
			Metrics:    measurement.Metrics{"goodput_bits_per_second": 1e9 + float64(order)/3},
			Throughput: &measurement.Bins{Width: 0.01, Bytes: []float64{1, 2, 3}},
		},
	}
}

func TestRunComesBackAsItWasPut(t *testing.T) {
	// A folder whose name would break an unescaped file: URL.
	dir := filepath.Join(t.TempDir(), "a run? 100%#1")
	s, err := store.Create(dir, head())
	testutil.OK(t, err)
	for _, order := range []int{2, 1, -2, 3, -1} {
		testutil.OK(t, s.Put(t.Context(), trial(order)))
	}
	if err := s.Put(t.Context(), trial(2)); err == nil {
		t.Error("a trial with a stored id was accepted again")
	}
	testutil.OK(t, s.Close())

	s, err = store.Open(dir)
	testutil.OK(t, err)
	defer s.Close()
	if got, err := s.Head(); err != nil || !reflect.DeepEqual(got, head()) {
		t.Errorf("head = %+v, %v", got, err)
	}
	got, err := s.Trials(t.Context())
	testutil.OK(t, err)
	want := []measurement.Trial{trial(1), trial(2), trial(3)}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("trials = %+v\nwant %+v", got, want)
	}
	if varied, err := s.Variations(t.Context()); err != nil || !reflect.DeepEqual(varied, []measurement.Trial{trial(-1), trial(-2)}) {
		t.Errorf("trials of variations = %+v, %v", varied, err)
	}
	if n, last, err := s.Count(t.Context()); n != 3 || !last.Equal(trial(3).Start) || err != nil {
		t.Errorf("Count = %d, %v, %v", n, last, err)
	}
	if err := s.SetHead(head()); err == nil {
		t.Error("a run opened for reading was written")
	}
}

// Bytes that a disk has lost are not taken for a mistake in something else, and what can be
// read beside them is.
func TestDamagedTrials(t *testing.T) {
	const trials = 60
	for what, c := range map[string]struct {
		damage func(t *testing.T, file string)
		lost   int // 0 where SQLite decides how many share a page
	}{
		"a document": {func(t *testing.T, file string) {
			changed(t, file, "UPDATE trial SET json = replace(json, '{', '[') WHERE order_index = 2")
		}, 1},
		"a document of a variation": {func(t *testing.T, file string) {
			changed(t, file, "UPDATE trial SET json = replace(json, '{', '[') WHERE order_index = -2")
		}, 1},
		"pages": {func(t *testing.T, file string) { clearPage(t, file, "\"id\":\"b01-p-t7\"") }, 0},
		"the end of the file": {func(t *testing.T, file string) {
			info, err := os.Stat(file)
			testutil.OK(t, err)
			testutil.OK(t, os.Truncate(file, info.Size()-2*4096))
		}, 0},
	} {
		dir := t.TempDir()
		s, err := store.Create(dir, head())
		testutil.OK(t, err)
		for n := range trials {
			testutil.OK(t, s.Put(t.Context(), trial(n+1)))
		}
		testutil.OK(t, s.Put(t.Context(), trial(-1)))
		testutil.OK(t, s.Put(t.Context(), trial(-2)))
		testutil.OK(t, s.Close())
		c.damage(t, filepath.Join(dir, store.FileName))
		s, err = store.Open(dir)
		testutil.OK(t, err)
		defer s.Close()
		_, bad := s.Trials(t.Context())
		if bad == nil {
			_, bad = s.Variations(t.Context())
		}
		if !errors.Is(bad, store.ErrDamaged) || !strings.Contains(bad.Error(), "read the trials of "+dir+": the file is damaged: ") {
			t.Errorf("%s: %v", what, bad)
		}
		got, lost, err := s.Readable(t.Context())
		if err != nil || len(got)+lost != trials+2 || lost == 0 || c.lost > 0 && lost != c.lost || len(got) < trials/2 {
			t.Errorf("%s: %d trials, %d lost: %v", what, len(got), lost, err)
		}
		for i := 1; i < len(got); i++ {
			if a, b := got[i-1].Order, got[i].Order; a > 0 && b > 0 && a > b || a < 0 && b > a {
				t.Errorf("%s: trial %d before trial %d", what, a, b)
			}
		}
	}
}

// changed has SQLite change a file behind the store's back.
func changed(t *testing.T, file, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	testutil.OK(t, err)
	_, err = db.Exec(statement)
	testutil.OK(t, errors.Join(err, db.Close()))
}

func TestOneWriterManyReaders(t *testing.T) {
	dir := t.TempDir()
	writer, err := store.Create(dir, head())
	testutil.OK(t, err)
	defer writer.Close()
	if _, err := store.Resume(dir); !errors.Is(err, store.ErrBusy) {
		t.Errorf("second writer: %v, want ErrBusy", err)
	}
	reader, err := store.Open(dir)
	testutil.OK(t, err)
	defer reader.Close()
	for order := 1; order <= 3; order++ {
		testutil.OK(t, writer.Put(t.Context(), trial(order)))
		if n, _, err := reader.Count(t.Context()); n != order || err != nil {
			t.Errorf("reader sees %d trials (%v), want %d", n, err, order)
		}
	}
}

func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	if _, err := store.Open(dir); !errors.Is(err, store.ErrNoRun) {
		t.Errorf("open an empty folder: %v, want ErrNoRun", err)
	}
	s, err := store.Create(dir, head())
	testutil.OK(t, err)
	testutil.OK(t, s.Close())
	if _, err := store.Create(dir, head()); err == nil || !strings.Contains(err.Error(), "--resume") {
		t.Errorf("create over a run: %v, want a hint at --resume", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	testutil.OK(t, os.WriteFile(file, nil, 0o600))
	if _, err := store.Create(filepath.Join(file, "run"), head()); err == nil || !strings.Contains(err.Error(), "--out") {
		t.Errorf("create below a file: %v, want a hint at --out", err)
	}
	unreadable := t.TempDir()
	testutil.OK(t, os.Mkdir(filepath.Join(unreadable, store.FileName), 0o700))
	if _, err := store.Create(unreadable, head()); err == nil || !strings.Contains(err.Error(), "--out") {
		t.Errorf("create over what cannot be read: %v, want a hint at --out", err)
	}
	if _, err := os.Stat(filepath.Join(unreadable, store.FileName)); err != nil {
		t.Errorf("what could not be read was removed: %v", err)
	}
	garbage := t.TempDir()
	testutil.OK(t, os.WriteFile(filepath.Join(garbage, store.FileName), []byte(strings.Repeat("not a database ", 300)), 0o600))
	if _, err := store.Open(garbage); err == nil || errors.Is(err, store.ErrNoRun) {
		t.Errorf("open garbage: %v, want another error than ErrNoRun", err)
	}
}

// What keeps SQLite from opening a run, such as a read-only folder, is asked after.
func TestRunThatCannotBeOpened(t *testing.T) {
	written, dir := t.TempDir(), t.TempDir()
	writer, err := store.Create(written, head())
	testutil.OK(t, err)
	defer writer.Close()
	text, err := os.ReadFile(filepath.Join(written, store.FileName))
	testutil.OK(t, errors.Join(err, os.WriteFile(filepath.Join(dir, store.FileName), text, 0o600), os.Mkdir(filepath.Join(dir, store.FileName+"-wal"), 0o700)))
	if _, err := store.Resume(dir); err == nil || !strings.Contains(err.Error(), "is the folder read-only") {
		t.Errorf("to go on with it: %v", err)
	}
	t.Setenv("TMPDIR", filepath.Join(dir, "none"))
	t.Setenv("TMP", filepath.Join(dir, "none")) // Windows
	if _, err := store.Open(dir); err == nil || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("to read it: %v", err)
	}
}

// database makes the store's file in a new folder with SQL of the test's own.
func database(t *testing.T, statements ...string) string {
	t.Helper()
	dir := t.TempDir()
	db, err := sql.Open("sqlite", filepath.Join(dir, store.FileName))
	testutil.OK(t, err)
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A run of version 1 can be read and not be gone on with.
func TestOldRun(t *testing.T) {
	dir := database(t, "CREATE TABLE head (id INTEGER PRIMARY KEY CHECK (id = 1), json TEXT NOT NULL) STRICT;"+
		"CREATE TABLE trial (id TEXT PRIMARY KEY, order_index INTEGER NOT NULL, block INTEGER NOT NULL, path TEXT NOT NULL, test TEXT NOT NULL,"+
		"passed INTEGER NOT NULL, start_utc TEXT NOT NULL, json TEXT NOT NULL) STRICT;"+
		"PRAGMA user_version = 1",
		`INSERT INTO head VALUES (1, '{"name": "x"}')`, `INSERT INTO trial VALUES ('b01-p-t2', 2, 1, 'p', 't', 1, '2026-11-21T08:00:02Z', '{"id": "b01-p-t2"}')`)
	s, err := store.Open(dir)
	testutil.OK(t, err)
	defer s.Close()
	if n, last, err := s.Count(t.Context()); err != nil || n != 1 || last.Second() != 2 || !s.Old() {
		t.Errorf("%d trials, the last of %v, old %v, %v", n, last, s.Old(), err)
	}
	if trials, err := s.Trials(t.Context()); err != nil || len(trials) != 1 || trials[0].ID != "b01-p-t2" {
		t.Errorf("trials %+v, %v", trials, err)
	}
	if _, err := store.Resume(dir); err == nil || !strings.Contains(err.Error(), "older hopbench") {
		t.Errorf("resume: %v", err)
	}
	if _, err := store.Create(dir, head()); err == nil {
		t.Error("a new run was begun over it")
	}
}

// A file that a run never got into is no run, and a new one may begin there.
func TestLeftovers(t *testing.T) {
	const (
		wal    = "PRAGMA journal_mode = WAL"
		tables = "CREATE TABLE head (id INTEGER PRIMARY KEY CHECK (id = 1), json TEXT NOT NULL) STRICT;" +
			"CREATE TABLE trial (id TEXT PRIMARY KEY, order_index INTEGER NOT NULL, start_utc TEXT NOT NULL, json TEXT NOT NULL) STRICT;" +
			"PRAGMA user_version = 2"
	)
	empty := t.TempDir()
	testutil.OK(t, os.WriteFile(filepath.Join(empty, store.FileName), nil, 0o600))
	for name, dir := range map[string]string{
		"no byte":     empty,
		"no table":    database(t, wal),
		"only tables": database(t, wal, tables),
	} {
		for what, open := range map[string]func(string) (*store.Store, error){"open": store.Open, "resume": store.Resume} {
			if _, err := open(dir); !errors.Is(err, store.ErrNoRun) || !strings.Contains(err.Error(), "--out") {
				t.Errorf("%s: %s: %v, want ErrNoRun and a hint at --out", name, what, err)
			}
		}
		s, err := store.Create(dir, head())
		if err != nil {
			t.Errorf("%s: begin anew: %v", name, err)
			continue
		}
		if err := errors.Join(s.Put(t.Context(), trial(1)), s.Close()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, dir := range map[string]string{
		"another program's":   database(t, "CREATE TABLE theirs (x)"),
		"a newer hopbench's":  database(t, tables, "PRAGMA user_version = 1000"),
		"trials, but no head": database(t, tables, "INSERT INTO trial VALUES ('a', 1, '', '{}')"),
	} {
		before, err := os.ReadFile(filepath.Join(dir, store.FileName))
		testutil.OK(t, err)
		for what, open := range map[string]func(string) (*store.Store, error){
			"open": store.Open, "resume": store.Resume,
			"create": func(dir string) (*store.Store, error) { return store.Create(dir, head()) },
		} {
			if _, err := open(dir); err == nil || errors.Is(err, store.ErrNoRun) {
				t.Errorf("%s: %s: %v, want another error than ErrNoRun", name, what, err)
			}
		}
		if after, err := os.ReadFile(filepath.Join(dir, store.FileName)); err != nil || string(after) != string(before) {
			t.Errorf("%s: the file was changed (%v)", name, err)
		}
	}
}

// What is discarded leaves nothing, and takes nothing that was there before.
func TestDiscardLeavesWhatWasThere(t *testing.T) {
	for what, there := range map[string]string{"nothing": "", "the folder above": "runs", "the folder": "runs/run"} {
		top := t.TempDir()
		testutil.OK(t, os.MkdirAll(filepath.Join(top, there), 0o755))
		s, err := store.Create(filepath.Join(top, "runs", "run")+"/", head())
		testutil.OK(t, err)
		testutil.OK(t, s.Discard())
		if err := s.Close(); err != nil {
			t.Errorf("%s: close what was discarded: %v", what, err)
		}
		left := ""
		testutil.OK(t, filepath.WalkDir(top, func(path string, _ os.DirEntry, err error) error {
			left = path
			return err
		}))
		if want := filepath.Join(top, there); left != want {
			t.Errorf("%s was there: %s is left, want %s", what, left, want)
		}
	}
}

// What is set aside does not count, is kept, and can be done again, and again.
func TestSetAside(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	s, err := store.Create(dir, head())
	testutil.OK(t, err)
	defer s.Close()
	for order := 1; order <= 3; order++ {
		testutil.OK(t, s.Put(t.Context(), trial(order)))
	}
	torn := head()
	torn.Repeated = []store.RepeatedBlock{{Block: 1, Trials: 2}}
	for range 2 {
		testutil.OK(t, s.SetAside(t.Context(), []string{trial(2).ID, trial(3).ID, "none"}, torn))
		trials, err := s.Trials(t.Context())
		testutil.OK(t, err)
		if len(trials) != 1 || trials[0].ID != trial(1).ID {
			t.Errorf("%+v count", trials)
		}
		if n, _, err := s.Count(t.Context()); err != nil || n != 1 {
			t.Errorf("%d trials, %v", n, err)
		}
		testutil.OK(t, s.Put(t.Context(), trial(2)))
		testutil.OK(t, s.Put(t.Context(), trial(3)))
	}
	if now, err := s.Head(); err != nil || len(now.Repeated) != 1 || now.Repeated[0].Trials != 2 {
		t.Errorf("head %+v, %v", now, err)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, store.FileName))
	testutil.OK(t, err)
	defer db.Close()
	kept := 0
	if err := db.QueryRow("SELECT count(*) FROM set_aside").Scan(&kept); err != nil || kept != 4 {
		t.Errorf("%d are kept, %v", kept, err)
	}
}

// clearPage takes the pages of a table away that have a text.
func clearPage(t *testing.T, file, has string) {
	t.Helper()
	text, err := os.ReadFile(file)
	testutil.OK(t, err)
	const page = 4096
	for at := page; at < len(text); at += page {
		const leaf = 0x0d // of a table; a page above them may have old rows where it has none
		if text[at] == leaf && bytes.Contains(text[at:min(at+page, len(text))], []byte(has)) {
			clear(text[at : at+page])
		}
	}
	testutil.OK(t, os.WriteFile(file, text, 0o644))
}
