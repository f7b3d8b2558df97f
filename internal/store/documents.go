package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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
	e, _ := errors.AsType[*sqlite.Error](err)
	switch {
	case errors.Is(err, errMoved) || e != nil && e.Code() == sqlite3.SQLITE_READONLY_DBMOVED:
		return "was the file moved, removed or replaced? Put it back where it was"
	case failedWith(err, sqlite3.SQLITE_READONLY):
		return "is the folder read-only?"
	case failedWith(err, sqlite3.SQLITE_CANTOPEN): // which leaves out why
		return "is the folder read-only, or the limit of open files (ulimit -n) too low?"
	case failedWith(err, sqlite3.SQLITE_IOERR): // likewise
		return "is the disk full or broken, or a quota or the limit of file sizes (ulimit -f) reached?"
	case failedWith(err, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CONSTRAINT):
		return "does another program write there?"
	case failedWith(err, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
		return "a part of the file was lost: use a copy, or begin in another folder"
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
	// begun is the run's file when it was opened for writing, nil otherwise.
	begun os.FileInfo
}

// errMoved says that what is written to a file would be found nowhere.
var errMoved = errors.New("the file is no longer there")

// moved looks for the file of a run, which SQLite does not with a log next to it: it would write
// on into one that was removed.
func (f *openFile) moved() error {
	if f.begun == nil {
		return nil
	}
	now, err := os.Stat(filepath.Join(f.dir, FileName))
	if errors.Is(err, os.ErrNotExist) || err == nil && !os.SameFile(now, f.begun) {
		return errMoved
	}
	return nil // another error is one of writing
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
	if err := f.moved(); err != nil {
		return err
	}
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
		var text sql.NullString // NULL in what is left of a page
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		var one T
		if err := json.Unmarshal([]byte(text.String), &one); err != nil {
			return nil, fmt.Errorf("%w: number %d of what it has cannot be read (%w); use a copy of the file", ErrDamaged, len(out)+1, err)
		}
		out = append(out, one)
	}
	return out, rows.Err()
}

// Missing is what a damaged file does not give back.
type Missing struct {
	Count int
	// More says that others may have been behind the last that can be read.
	More bool
}

// mostUnread is how many documents in a row are looked for in vain, since which is the last may be
// unreadable or wrong: more than one damaged page of SQLite's can hide.
const mostUnread = 10_000

// readable reads the documents of a table, whose key is a number, of a damaged file as many as
// it can.
func readable[T any](ctx context.Context, db *sql.DB, what, table, key string) (out []T, missing Missing, err error) {
	out, err = documents[T](ctx, db, what, fmt.Sprintf("SELECT json FROM %s ORDER BY %s", table, key))
	if !errors.Is(err, ErrDamaged) {
		return out, missing, err
	}
	var last int64
	missing.More = db.QueryRowContext(ctx, fmt.Sprintf("SELECT coalesce(max(%s), 0) FROM %s", key, table)).Scan(&last) != nil
	out = nil
	query := fmt.Sprintf("SELECT json FROM %s WHERE %s = ?", table, key)
	unread := 0 // since the last that can be read
	for n := int64(1); (n <= last || missing.More) && unread < mostUnread; n++ {
		var text sql.NullString
		var one T
		switch err := db.QueryRowContext(ctx, query, n).Scan(&text); {
		case err == nil && json.Unmarshal([]byte(text.String), &one) == nil:
			out = append(out, one)
			missing.Count += unread
			unread = 0
		case err == nil || errors.Is(err, sql.ErrNoRows) || errors.Is(damaged(err), ErrDamaged):
			unread++
		default:
			return nil, missing, fmt.Errorf("read number %d of %s: %w", n, what, err)
		}
	}
	switch {
	case unread == mostUnread: // the last number may be what the damage left there
		missing.More = true
	case !missing.More:
		missing.Count += unread
	}
	return out, missing, nil
}
