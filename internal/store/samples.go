package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/hopbench/hopbench/internal/fleet/samples"
	"github.com/hopbench/hopbench/internal/measurement"
)

// sampleTable has seq before seat in its key, so that what comes second by second is
// appended. Its rows are not in the key's own tree (WITHOUT ROWID), where a block of more
// than a kilobyte would take a page of its own. Only runs of fleets have it.
const sampleTable = `CREATE TABLE IF NOT EXISTS sample (
		trial   TEXT NOT NULL,
		seq     INTEGER NOT NULL,
		seat    INTEGER NOT NULL,
		attempt INTEGER NOT NULL,
		from_ns INTEGER NOT NULL,
		n       INTEGER NOT NULL,
		data    BLOB NOT NULL,
		PRIMARY KEY (trial, seq, seat, attempt)
	) STRICT`

// attemptTable has which agent was to do which part of a trial. Only runs of fleets have it.
const attemptTable = `CREATE TABLE IF NOT EXISTS attempt (
		trial   TEXT NOT NULL,
		seat    INTEGER NOT NULL,
		attempt INTEGER NOT NULL,
		agent   TEXT NOT NULL,
		PRIMARY KEY (trial, seat, attempt)
	) STRICT, WITHOUT ROWID`

// BeginAttempt keeps which agents are to do a trial, of seats 1, 2 and so on. It returns
// which attempt at it that is, counted from 1: samples of one never mix with those of
// another.
func (s *Store) BeginAttempt(ctx context.Context, trial string, agents []string) (attempt int, err error) {
	err = s.inTransaction(func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, attemptTable); err != nil {
			return err
		}
		if err := tx.QueryRowContext(ctx, "SELECT coalesce(max(attempt), 0) + 1 FROM attempt WHERE trial = ?", trial).Scan(&attempt); err != nil {
			return err
		}
		return insertAll(ctx, tx, "INSERT INTO attempt (trial, seat, attempt, agent) VALUES (?, ?, ?, ?)", len(agents), func(i int) []any {
			return []any{trial, i + 1, attempt, agents[i]}
		})
	})
	if err != nil {
		return 0, fmt.Errorf("store who does trial %s in %s: %w; %s", trial, s.dir, err, why(err))
	}
	return attempt, nil
}

// Assigned says whether an agent was to do the test of a block.
func (s *Store) Assigned(ctx context.Context, agent string, of samples.Key) (bool, error) {
	var n int
	if there, err := s.hasTable(ctx, "attempt"); err != nil || !there {
		return false, err
	}
	err := s.db.QueryRowContext(ctx, "SELECT count(*) FROM attempt WHERE trial = ? AND seat = ? AND attempt = ? AND agent = ?", of.Trial, of.Seat, of.Attempt, agent).Scan(&n)
	if err != nil {
		return false, fmt.Errorf("read who does trial %s in %s: %w", of.Trial, s.dir, err)
	}
	return n > 0, nil
}

// Agents are those that did the last attempt at a trial, of seats 1, 2 and so on: none where
// that is not kept.
func (s *Store) Agents(ctx context.Context, trial string) (agents []string, err error) {
	if there, err := s.hasTable(ctx, "attempt"); err != nil || !there {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("read who did trial %s in %s: %w", trial, s.dir, err)
		}
	}()
	rows, err := s.db.QueryContext(ctx, "SELECT agent FROM attempt WHERE trial = ?1 AND attempt = (SELECT max(attempt) FROM attempt WHERE trial = ?1) ORDER BY seat", trial)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		agents = append(agents, name)
	}
	return agents, rows.Err()
}

// PutSamples keeps blocks of samples, all of them or none. They are on the disk when it
// returns, so they may be acknowledged then. A block whose key is there is kept as it is.
func (s *Store) PutSamples(ctx context.Context, blocks []samples.Block) error {
	err := s.inTransaction(func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, sampleTable); err != nil {
			return err
		}
		return insertAll(ctx, tx, "INSERT INTO sample (trial, seq, seat, attempt, from_ns, n, data) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", len(blocks), func(i int) []any {
			b := &blocks[i]
			return []any{b.Trial, b.Seq, b.Seat, b.Attempt, int64(b.From), b.Samples, b.Data}
		})
	})
	if err != nil {
		return fmt.Errorf("store samples in %s: %w; %s Nothing of them was kept, and they can be stored again", s.dir, err, why(err))
	}
	return nil
}

// lateTable has what tests brought after their trials were over, which does not count. Only runs
// of fleets have it.
const lateTable = `CREATE TABLE IF NOT EXISTS late_result (
		trial   TEXT NOT NULL,
		seat    INTEGER NOT NULL,
		attempt INTEGER NOT NULL,
		agent   TEXT NOT NULL,
		json    TEXT NOT NULL,
		PRIMARY KEY (trial, seat, attempt)
	) STRICT`

// PutLate keeps results that came after their trials were over, all of them or none, each key
// once, and says how many that are. They are on the disk when it returns. One that is in the
// trial that counts is kept there already.
func (s *Store) PutLate(ctx context.Context, results []samples.Result) (kept int, err error) {
	err = s.inTransaction(func(tx *sql.Tx) (err error) {
		if _, err := tx.ExecContext(ctx, lateTable); err != nil {
			return err
		}
		for _, r := range results {
			if counts, err := inTrial(ctx, tx, r); err != nil || counts {
				if err != nil {
					return err
				}
				continue
			}
			done, err := tx.ExecContext(ctx, "INSERT INTO late_result (trial, seat, attempt, agent, json) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", r.Trial, r.Seat, r.Attempt, r.Agent, string(r.Outcome))
			if err != nil {
				return err
			}
			n, err := done.RowsAffected()
			if err != nil {
				return err
			}
			kept += int(n)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("store late results in %s: %w; %s Nothing of them was kept, and they can be stored again", s.dir, err, why(err))
	}
	return kept, nil
}

// inTrial says whether a result is part of the trial that is stored.
func inTrial(ctx context.Context, tx *sql.Tx, r samples.Result) (bool, error) {
	var text string
	err := tx.QueryRowContext(ctx, "SELECT json FROM trial WHERE id = ?1 AND ?2 = (SELECT max(attempt) FROM attempt WHERE trial = ?1)", r.Trial, r.Attempt).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	var t measurement.Trial
	if err == nil {
		err = json.Unmarshal([]byte(text), &t)
	}
	if err != nil {
		return false, err
	}
	if len(t.Pairs) == 0 { // the only one
		return len(t.Metrics) > 0, nil
	}
	return slices.ContainsFunc(t.Pairs, func(p measurement.Pair) bool { return p.Source == r.Agent && p.Error == "" }), nil
}

func (s *Store) hasTable(ctx context.Context, name string) (bool, error) {
	var n int
	err := s.db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?", name).Scan(&n)
	if err != nil {
		return false, fmt.Errorf("look for the table %s in %s: %w", name, s.dir, err)
	}
	return n > 0, nil
}

// Samples reads the blocks of a trial's last attempt, roughly in the order of time.
func (s *Store) Samples(ctx context.Context, trial string) iter.Seq2[samples.Block, error] {
	return func(yield func(samples.Block, error) bool) {
		fail := func(err error) {
			yield(samples.Block{}, fmt.Errorf("read the samples of trial %s in %s: %w", trial, s.dir, err))
		}
		there, err := s.hasTable(ctx, "sample")
		if err != nil {
			fail(err)
			return
		}
		if !there {
			return
		}
		last := "(SELECT max(attempt) FROM sample WHERE trial = ?1)"
		began, err := s.hasTable(ctx, "attempt")
		if err != nil {
			fail(err)
			return
		}
		if began { // one that brought no samples does not have those of the one before
			last = "coalesce((SELECT max(attempt) FROM attempt WHERE trial = ?1), " + last + ")"
		}
		rows, err := s.db.QueryContext(ctx, "SELECT seq, seat, attempt, data FROM sample WHERE trial = ?1 AND attempt = "+last+" ORDER BY seq, seat", trial)
		if err != nil {
			fail(err)
			return
		}
		defer rows.Close()
		for rows.Next() {
			key := samples.Key{Trial: trial}
			var data []byte
			if err := rows.Scan(&key.Seq, &key.Seat, &key.Attempt, &data); err != nil {
				fail(err)
				return
			}
			b, err := samples.Read(data)
			if err == nil && b.Key != key {
				err = fmt.Errorf("the block of %+v says that it is that of %+v", key, b.Key)
			}
			if err != nil {
				fail(err)
				return
			}
			if !yield(b, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			fail(err)
		}
	}
}
