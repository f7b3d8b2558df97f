package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/hopbench/hopbench/internal/fleet/samples"
)

// fedTable has how far other places have the samples of a run, as a row of the table of
// samples, from which nothing is ever removed.
const fedTable = `CREATE TABLE IF NOT EXISTS fed (
		place    TEXT NOT NULL PRIMARY KEY,
		position INTEGER NOT NULL
	) STRICT, WITHOUT ROWID`

// SamplesAfter reads blocks in the order in which they were kept, all attempts among them:
// those after a position, until they have so many bytes, and the position of the last.
func (s *Store) SamplesAfter(ctx context.Context, position int64, bytes int) (blocks []samples.Block, last int64, err error) {
	defer func() {
		if err != nil {
			blocks, last, err = nil, position, fmt.Errorf("read the samples of %s from the %dth on: %w", s.dir, position+1, err)
		}
	}()
	last = position
	if there, err := s.hasTable(ctx, "sample"); err != nil || !there {
		return nil, last, err
	}
	rows, err := s.db.QueryContext(ctx, "SELECT rowid, data FROM sample WHERE rowid > ? ORDER BY rowid", position)
	if err != nil {
		return nil, last, err
	}
	defer rows.Close()
	for bytes > 0 && rows.Next() {
		var data []byte
		if err := rows.Scan(&last, &data); err != nil {
			return nil, last, err
		}
		b, err := samples.Read(data)
		if err != nil {
			return nil, last, err
		}
		blocks = append(blocks, b)
		bytes -= len(data)
	}
	return blocks, last, rows.Err()
}

// Fed is the position up to which a place has the samples of the run.
func (s *Store) Fed(ctx context.Context, place string) (position int64, err error) {
	if there, err := s.hasTable(ctx, "fed"); err != nil || !there {
		return 0, err
	}
	err = s.db.QueryRowContext(ctx, "SELECT position FROM fed WHERE place = ?", place).Scan(&position)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("read what %s has of the samples of %s: %w", place, s.dir, err)
	}
	return position, nil
}

// SetFed keeps up to which position a place has the samples of the run.
func (s *Store) SetFed(ctx context.Context, place string, position int64) error {
	err := s.inTransaction(func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, fedTable); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO fed (place, position) VALUES (?, ?)", place, position)
		return err
	})
	if err != nil {
		return fmt.Errorf("store what %s has of the samples of %s: %w; %s", place, s.dir, err, why(err))
	}
	return nil
}
