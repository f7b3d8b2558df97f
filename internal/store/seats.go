package store

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/hopbench/hopbench/internal/fleet/ledger"
)

// seatTable has the seats of a run. Only runs of fleets have it.
const seatTable = `CREATE TABLE IF NOT EXISTS seat (
		id         INTEGER PRIMARY KEY,
		server     TEXT NOT NULL,
		generation INTEGER NOT NULL,
		client     TEXT,
		state      TEXT NOT NULL
	) STRICT`

// PutSeats keeps seats in place of those of the same ids, all of them or none. They are on
// the disk when it returns.
func (s *Store) PutSeats(ctx context.Context, seats []ledger.Seat) error {
	err := s.inTransaction(func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, seatTable); err != nil {
			return err
		}
		return insertAll(ctx, tx, "INSERT OR REPLACE INTO seat (id, server, generation, client, state) VALUES (?, ?, ?, nullif(?, ''), ?)", len(seats), func(i int) []any {
			x := seats[i]
			return []any{x.ID, x.Server, int64(x.Generation), x.Client, string(x.State)}
		})
	})
	if err != nil {
		return fmt.Errorf("store the seats of the run in %s: %w; %s", s.dir, err, why(err))
	}
	return nil
}

// Seats are those that were put, by their ids.
func (s *Store) Seats(ctx context.Context) (all []ledger.Seat, err error) {
	defer func() {
		if err != nil {
			all, err = nil, fmt.Errorf("read the seats of the run in %s: %w", s.dir, err)
		}
	}()
	if there, err := s.hasTable(ctx, "seat"); err != nil || !there {
		return nil, err
	}
	rows, err := s.db.QueryContext(ctx, "SELECT id, server, generation, coalesce(client, ''), state FROM seat ORDER BY id")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var x ledger.Seat
		if err := rows.Scan(&x.ID, &x.Server, &x.Generation, &x.Client, &x.State); err != nil {
			return nil, err
		}
		all = append(all, x)
	}
	return all, rows.Err()
}
