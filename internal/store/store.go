// Package store keeps the trials of one run in its folder, in a SQLite file
// named run.sqlite. What is measured is written once, as it came, so that
// every later table can be made again from it. A trial is on disk when Put
// returns: killing the program at any moment loses at most the trial that was
// being measured.
package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the driver named "sqlite"

	"github.com/hopbench/hopbench/internal/measurement"
)

// FileName is the store's file inside a run folder.
const FileName = "run.sqlite"

// ErrNoRun says that a folder holds no run.
var ErrNoRun = errors.New("no run in this folder")

// ErrBusy says that another process is writing the run.
var ErrBusy = errors.New("another hopbench is writing this run")

// Head is what is known of a run before its first trial: enough to plan it
// again, and to resume it.
type Head struct {
	// Experiment is the file's text, File where it came from.
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

	Planned     int                 `json:"planned_trials"`
	Testbed     measurement.Testbed `json:"testbed"`
	Environment map[string]string   `json:"environment"`
	Started     time.Time           `json:"started"`
	// Notes are sentences about the run itself, such as a testbed that had to
	// be built again.
	Notes []string `json:"notes,omitempty"`
}

// Store is an open run.
type Store struct {
	db   *sql.DB
	lock io.Closer // nil when opened for reading
	dir  string
}

// schema is applied in order; user_version counts what has been applied.
var schema = []string{
	`CREATE TABLE head (
		id   INTEGER PRIMARY KEY CHECK (id = 1),
		json TEXT NOT NULL
	) STRICT;
	CREATE TABLE trial (
		id          TEXT PRIMARY KEY,
		order_index INTEGER NOT NULL,
		block       INTEGER NOT NULL,
		path        TEXT NOT NULL,
		test        TEXT NOT NULL,
		passed      INTEGER NOT NULL,
		start_utc   TEXT NOT NULL,
		json        TEXT NOT NULL
	) STRICT;
	CREATE TABLE metric (
		trial_id TEXT NOT NULL REFERENCES trial(id),
		name     TEXT NOT NULL,
		value    REAL NOT NULL,
		PRIMARY KEY (trial_id, name)
	) STRICT, WITHOUT ROWID;`,
}

// Create makes the folder dir and an empty run in it. It fails if dir already
// holds a run.
func Create(dir string, head Head) (*Store, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create the run folder: %w; choose another with --out", err)
	}
	path := filepath.Join(dir, FileName)
	if _, err := os.Stat(path); err == nil {
		return nil, fmt.Errorf("%s already holds a run; continue it with --resume %s or choose another folder with --out", dir, dir)
	}
	s, err := open(dir, true)
	if err != nil {
		return nil, err
	}
	if err := s.migrate(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.SetHead(head); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Resume opens an existing run for writing.
func Resume(dir string) (*Store, error) {
	if err := exists(dir); err != nil {
		return nil, err
	}
	s, err := open(dir, true)
	if err != nil {
		return nil, err
	}
	if err := s.migrate(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Open opens an existing run for reading, also while another process writes it.
func Open(dir string) (*Store, error) {
	if err := exists(dir); err != nil {
		return nil, err
	}
	return open(dir, false)
}

func exists(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, FileName)); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s: %w (no %s there)", dir, ErrNoRun, FileName)
		}
		return fmt.Errorf("open the run: %w", err)
	}
	return nil
}

func open(dir string, write bool) (*Store, error) {
	s := &Store{dir: dir}
	if write {
		lock, err := Lock(dir)
		if err != nil {
			return nil, err
		}
		s.lock = lock
	}
	// One connection: there is one writer, and readers are other processes.
	// FULL, because a trial costs a second to measure and a sync a millisecond.
	query := url.Values{"_pragma": {"busy_timeout(5000)", "foreign_keys(1)", "journal_mode(WAL)", "synchronous(FULL)"}}
	if !write {
		query = url.Values{"_pragma": {"busy_timeout(5000)", "query_only(1)"}}
	}
	name := (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: filepath.Join(dir, FileName)}).EscapedPath(), RawQuery: query.Encode()}).String()
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", FileName, err), s.Close())
	}
	db.SetMaxOpenConns(1)
	s.db = db
	if err := db.Ping(); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w; is the disk full or the folder read-only?", filepath.Join(dir, FileName), err), s.Close())
	}
	return s, nil
}

func (s *Store) migrate() error {
	var have int
	if err := s.db.QueryRow("PRAGMA user_version").Scan(&have); err != nil {
		return fmt.Errorf("read the store's version: %w", err)
	}
	if have > len(schema) {
		return fmt.Errorf("%s was written by a newer hopbench (store version %d, this one knows %d)", s.dir, have, len(schema))
	}
	for version := have; version < len(schema); version++ {
		if err := s.inTransaction(func(tx *sql.Tx) error {
			if _, err := tx.Exec(schema[version]); err != nil {
				return err
			}
			_, err := tx.Exec(fmt.Sprintf("PRAGMA user_version = %d", version+1))
			return err
		}); err != nil {
			return fmt.Errorf("bring the store to version %d: %w", version+1, err)
		}
	}
	return nil
}

func (s *Store) inTransaction(do func(*sql.Tx) error) error {
	tx, err := s.db.Begin()
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// Dir is the run's folder.
func (s *Store) Dir() string { return s.dir }

// Head reads what is known of the run.
func (s *Store) Head() (Head, error) {
	var text string
	if err := s.db.QueryRow("SELECT json FROM head WHERE id = 1").Scan(&text); err != nil {
		return Head{}, fmt.Errorf("read the head of %s: %w", s.dir, err)
	}
	var head Head
	if err := json.Unmarshal([]byte(text), &head); err != nil {
		return Head{}, fmt.Errorf("read the head of %s: %w", s.dir, err)
	}
	return head, nil
}

// SetHead replaces what is known of the run.
func (s *Store) SetHead(head Head) error {
	text, err := json.Marshal(head)
	if err != nil {
		return fmt.Errorf("encode the head: %w", err)
	}
	_, err = s.db.Exec("INSERT INTO head (id, json) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET json = excluded.json", string(text))
	if err != nil {
		return fmt.Errorf("write the head of %s: %w", s.dir, err)
	}
	return nil
}

// Put keeps a trial. A trial's id is written once: a second Put of the same
// id is an error, so that nothing is ever counted twice.
func (s *Store) Put(ctx context.Context, t measurement.Trial) error {
	text, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("encode trial %s: %w", t.ID, err)
	}
	err = s.inTransaction(func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx,
			"INSERT INTO trial (id, order_index, block, path, test, passed, start_utc, json) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
			t.ID, t.Order, t.Block, t.Path, t.Test, t.Gate.Passed, t.Start.UTC().Format(time.RFC3339Nano), string(text)); err != nil {
			return err
		}
		for name, value := range t.Metrics {
			if _, err := tx.ExecContext(ctx, "INSERT INTO metric (trial_id, name, value) VALUES (?, ?, ?)", t.ID, name, value); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("store trial %s in %s: %w; is the disk full?", t.ID, s.dir, err)
	}
	return nil
}

// Trials reads every trial in the order they were planned.
func (s *Store) Trials(ctx context.Context) (trials []measurement.Trial, err error) {
	rows, err := s.db.QueryContext(ctx, "SELECT json FROM trial ORDER BY order_index")
	if err != nil {
		return nil, fmt.Errorf("read the trials of %s: %w", s.dir, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, fmt.Errorf("read the trials of %s: %w", s.dir, err)
		}
		var t measurement.Trial
		if err := json.Unmarshal([]byte(text), &t); err != nil {
			return nil, fmt.Errorf("read a trial of %s: %w", s.dir, err)
		}
		trials = append(trials, t)
	}
	return trials, rows.Err()
}

// Count is how many trials are stored and when the last one started; the time
// is zero when there is none.
func (s *Store) Count(ctx context.Context) (trials int, last time.Time, err error) {
	var text sql.NullString
	if err := s.db.QueryRowContext(ctx, "SELECT count(*), max(start_utc) FROM trial").Scan(&trials, &text); err != nil {
		return 0, time.Time{}, fmt.Errorf("count the trials of %s: %w", s.dir, err)
	}
	if text.Valid {
		last, err = time.Parse(time.RFC3339Nano, text.String)
	}
	return trials, last, err
}

// Close releases the run.
func (s *Store) Close() error {
	var err error
	if s.db != nil {
		err = s.db.Close()
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}
