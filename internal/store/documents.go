package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"modernc.org/sqlite" // the driver named "sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// ErrDamaged says that bytes of a file are not as they were written, or cannot be read.
var ErrDamaged = errors.New("the file is damaged")

// failedWith says that SQLite failed with one of these codes.
func failedWith(err error, codes ...int) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && slices.Contains(codes, e.Code()&0xff)
}

// why asks after the likely cause of an error of writing.
func why(err error) string {
	switch {
	case failedWith(err, sqlite3.SQLITE_READONLY):
		return "is the folder read-only?"
	case failedWith(err, sqlite3.SQLITE_CANTOPEN): // which leaves out why
		return "is the folder read-only, or the limit of open files (ulimit -n) too low?"
	case failedWith(err, sqlite3.SQLITE_IOERR): // likewise
		return "is the disk full or broken, or a quota or the limit of file sizes (ulimit -f) reached?"
	case failedWith(err, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CONSTRAINT):
		return "does another program write there?"
	}
	return "is the disk full?"
}

// damaged marks the error of a page that is damaged, or that the disk does not give back.
func damaged(err error) error {
	if failedWith(err, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_IOERR) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

// openFile is a file of SQLite that is open, in a folder: a run's, or a watch's.
type openFile struct {
	db   *sql.DB
	lock io.Closer // nil when opened for reading
	dir  string
}

// Dir is the folder.
func (f *openFile) Dir() string { return f.dir }

// Close releases both. A second Close does nothing.
func (f *openFile) Close() error {
	var err error
	if f.db != nil {
		err = f.db.Close()
	}
	if f.lock != nil {
		err = errors.Join(err, f.lock.Close())
	}
	f.db, f.lock = nil, nil
	return err
}

func (f *openFile) inTransaction(do func(*sql.Tx) error) error {
	tx, err := f.db.Begin()
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		_ = tx.Rollback() // which a full disk has done already, and calls a mistake then
		return err
	}
	return tx.Commit()
}

// inspect is the version of a file's tables, how many it has, and whether one of that name, which
// says that the file is ours, is among them.
func inspect(db *sql.DB, name string) (version, tables int, ours bool, err error) {
	err = db.QueryRow("SELECT (SELECT user_version FROM pragma_user_version), count(*), coalesce(max(name = ?), 0) FROM sqlite_schema WHERE type = 'table'", name).
		Scan(&version, &tables, &ours)
	return version, tables, ours, err
}

// insert writes a document, as JSON.
func insert(tx *sql.Tx, statement string, document any, further ...any) error {
	text, err := json.Marshal(document)
	if err != nil {
		return err
	}
	_, err = tx.Exec(statement, append([]any{string(text)}, further...)...)
	return err
}

// insertAll runs a statement that inserts one of n rows with the values of each.
func insertAll(ctx context.Context, tx *sql.Tx, statement string, n int, values func(i int) []any) error {
	prepared, err := tx.PrepareContext(ctx, statement)
	if err != nil {
		return err
	}
	for i := range n {
		if _, err := prepared.ExecContext(ctx, values(i)...); err != nil {
			return errors.Join(err, prepared.Close())
		}
	}
	return prepared.Close()
}

// document reads one.
func document(db *sql.DB, query string, into any) error {
	var text string
	if err := db.QueryRow(query).Scan(&text); err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), into)
}

// documents reads all that a query finds; what names them in an error.
func documents[T any](ctx context.Context, db *sql.DB, what, query string) (out []T, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("read %s: %w", what, damaged(err))
		}
	}()
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		var one T
		if err := json.Unmarshal([]byte(text), &one); err != nil {
			return nil, fmt.Errorf("%w: number %d of what it has cannot be read (%w); use a copy of the file", ErrDamaged, len(out)+1, err)
		}
		out = append(out, one)
	}
	return out, rows.Err()
}
