package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"

	"github.com/hopbench/hopbench/internal/watch"
)

// WatchFileName is the file of a watch inside its folder.
const WatchFileName = "watch.sqlite"

// ErrNoWatch says that a folder holds no watch.
var ErrNoWatch = errors.New("no watch in this folder")

// Watched keeps the rounds of a watch. A round is on disk when Put returns.
type Watched struct{ openFile }

// watchVersion is that of the tables, the file's user_version.
const watchVersion = 1

const watchSchema = `CREATE TABLE watch (
		id   INTEGER PRIMARY KEY CHECK (id = 1),
		json TEXT NOT NULL
	) STRICT;
	CREATE TABLE round (
		number INTEGER PRIMARY KEY,
		json   TEXT NOT NULL
	) STRICT;
	CREATE TABLE announced (
		id    INTEGER PRIMARY KEY,
		round INTEGER NOT NULL,
		json  TEXT NOT NULL
	) STRICT;
	PRAGMA user_version = 1;`

// TakeUpWatch opens the watch in a folder for writing, and begins it if there is none. One
// that is there goes on by its own rules and must be of the same; it is ErrBusy if another
// process has it.
func TakeUpWatch(dir string, head watch.Head) (_ *Watched, _ watch.Head, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, head, fmt.Errorf("create the folder of the watch: %w; choose another with --out", err)
	}
	lock, err := Lock(dir)
	if errors.Is(err, ErrBusy) {
		return nil, head, fmt.Errorf("%w; end it, or watch under another --name", err)
	}
	if err != nil {
		return nil, head, err
	}
	w := &Watched{openFile{dir: dir, lock: lock}}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	// No log next to the file: it can be read whenever no round is being written, and what a
	// killed writer left is undone by who opens it next.
	if w.db, err = database(filepath.Join(dir, WatchFileName), "busy_timeout(5000)", "synchronous(FULL)", "journal_mode(DELETE)"); err != nil {
		return nil, head, err
	}
	there, err := w.head()
	same := head.Rules
	if there.Rules.Tests == nil { // begun by a hopbench that did not keep them
		same.Tests = nil
	}
	switch {
	case errors.Is(err, ErrNoWatch):
		err = w.inTransaction(func(tx *sql.Tx) error {
			if _, err := tx.Exec(watchSchema); err != nil {
				return err
			}
			return insert(tx, "INSERT INTO watch (id, json) VALUES (1, ?)", head)
		})
		if err != nil {
			return nil, head, fmt.Errorf("begin a watch in %s: %w; %s", dir, err, why(err))
		}
		return w, head, nil
	case err != nil:
		return nil, head, err
	case there.Target != string([]rune(head.Target)): // as JSON has kept what is no UTF-8
		return nil, head, fmt.Errorf("%s holds a watch of %s, not of %s; watch under another --name", dir, there.Target, head.Target)
	case there.Subject != "" && there.Subject != head.Subject:
		return nil, head, fmt.Errorf("%s holds a watch of %s as it was: paths, tests, blocks or the testbed have changed since, and its levels are of another measurement; put them back, or watch under another --name", dir, there.Target)
	case !reflect.DeepEqual(there.Rules, same):
		return nil, head, fmt.Errorf("%s holds a watch that began with other tests, --every, --matters or --false-alarms, by which it found changes; give the same, or watch under another --name", dir)
	}
	return w, there, nil
}

// OpenWatch opens a watch for reading, also while another process goes on with it.
func OpenWatch(dir string) (_ *Watched, _ watch.Head, err error) {
	file := filepath.Join(dir, WatchFileName)
	if err := isFile(file); err != nil {
		return nil, watch.Head{}, fmt.Errorf("%s: %w (%w)", dir, ErrNoWatch, err)
	}
	w := &Watched{openFile{dir: dir}}
	// With a writable schema SQLite reads a file that was cut short (see Store.connect).
	if w.db, err = database(file, "busy_timeout(5000)", "writable_schema(1)", "query_only(1)"); err != nil {
		return nil, watch.Head{}, err
	}
	head, err := w.head()
	if err != nil {
		return nil, head, errors.Join(err, w.Close())
	}
	return w, head, nil
}

func (w *Watched) head() (head watch.Head, err error) {
	file := filepath.Join(w.dir, WatchFileName)
	version, tables, ours, err := inspect(w.db, "watch")
	switch {
	case err != nil:
		return head, fmt.Errorf("open %s: %w", file, err)
	case tables == 0:
		return head, fmt.Errorf("%s: %w", w.dir, ErrNoWatch)
	case !ours:
		return head, fmt.Errorf("%s is a database, but not of a watch", file)
	case version > watchVersion:
		return head, fmt.Errorf("%s was written by a newer hopbench (version %d, this one knows %d)", file, version, watchVersion)
	}
	if err := document(w.db, "SELECT json FROM watch WHERE id = 1", &head); err != nil {
		return head, fmt.Errorf("read %s: %w", file, err)
	}
	return head, nil
}

// Put keeps a round with what was announced of it: all of it or nothing.
func (w *Watched) Put(_ context.Context, r watch.Round, announced []watch.Event) error {
	err := w.inTransaction(func(tx *sql.Tx) error {
		if err := insert(tx, "INSERT INTO round (number, json) VALUES (?2, ?1)", r, r.Number); err != nil {
			return err
		}
		for _, e := range announced {
			if err := insert(tx, "INSERT INTO announced (json, round) VALUES (?1, ?2)", e, e.Round); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("store round %d in %s: %w; %s", r.Number, w.dir, err, why(err))
	}
	return nil
}

// Rounds are all that were kept, in their order, of a damaged file those that can be read.
func (w *Watched) Rounds(ctx context.Context) ([]watch.Round, Missing, error) {
	return readable[watch.Round](ctx, w.db, "the watch in "+w.dir, "round", "number")
}

// Newest is the number of the newest round that was kept, also of one that cannot be read; 0
// without any.
func (w *Watched) Newest(ctx context.Context) (number int64, err error) {
	if err := w.db.QueryRowContext(ctx, "SELECT coalesce(max(number), 0) FROM round").Scan(&number); err != nil {
		return 0, fmt.Errorf("read which round of the watch in %s is the newest: %w", w.dir, damaged(err))
	}
	return number, nil
}

// Announced are the events that were kept, in their order, of a damaged file those that can be
// read.
func (w *Watched) Announced(ctx context.Context) ([]watch.Event, Missing, error) {
	return readable[watch.Event](ctx, w.db, "the watch in "+w.dir, "announced", "id")
}
