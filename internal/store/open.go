package store

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/hopbench/hopbench/internal/printable"
)

// Store is an open run.
type Store struct {
	openFile
	version int // of its tables
	// made are the folders that were made for it, the innermost first.
	made []string
	// copied is a folder of our own with what could not be read in dir, empty
	// usually.
	copied string
}

// suffixes are what SQLite adds to the name of a file for those next to it.
var suffixes = []string{"", "-wal", "-shm", "-journal"}

// IsDatabase says whether a file has the name of what a run or a watch is kept in, or of what
// SQLite has next to it.
func IsDatabase(file string) bool {
	for _, suffix := range suffixes {
		if name := filepath.Base(file); name == FileName+suffix || name == WatchFileName+suffix {
			return true
		}
	}
	return false
}

// Create makes the folder dir and a run without trials in it. It fails if dir
// already holds a run; what was begun there and has no head yet is none. When it
// fails it leaves nothing behind.
func Create(dir string, head Head) (*Store, error) {
	made := missing(dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create the run folder: %w; choose another with --out", err)
	}
	s, err := open(dir, true)
	if err != nil {
		remove(made)
		return nil, err
	}
	s.made = made
	if err := isFile(filepath.Join(dir, FileName)); !errors.Is(err, os.ErrNotExist) {
		if err == nil {
			err = s.check()
		}
		// What is there is somebody's, unless it says that it is nothing.
		switch {
		case err == nil:
			return nil, errors.Join(s.taken(), s.Close())
		case !errors.Is(err, ErrNoRun):
			return nil, errors.Join(fmt.Errorf("%w; choose another folder with --out", err), s.Close())
		}
	}
	if err := s.begin(head); err != nil {
		return nil, errors.Join(fmt.Errorf("begin a run in %s: %w; %s", dir, err, why(err)), s.Discard())
	}
	return s, nil
}

// missing are the folders of a path that are not there, the innermost first.
func missing(dir string) (all []string) {
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		if _, err := os.Lstat(at); !errors.Is(err, os.ErrNotExist) {
			return all
		}
		all = append(all, at)
		if at == filepath.Dir(at) { // a drive that is not there
			return all
		}
	}
}

// remove removes folders as far as they are empty.
func remove(folders []string) {
	for _, dir := range folders {
		if os.Remove(dir) != nil {
			return
		}
	}
}

// taken says that the folder has a run, and what can be done with it.
func (s *Store) taken() error {
	there, err := s.Head()
	if err != nil || there.Test != nil { // which nobody can continue
		return fmt.Errorf("%s already holds a run; choose another folder with --out", s.dir)
	}
	return fmt.Errorf("%s already holds a run; continue it with hopbench run --resume %s or choose another folder with --out", s.dir, printable.ShellWord(s.dir))
}

// begin puts the tables and the head into the file, or nothing.
func (s *Store) begin(head Head) error {
	if err := s.logAhead(); err != nil {
		return err
	}
	s.version = version
	return s.inTransaction(func(tx *sql.Tx) error {
		if err := create(tx); err != nil {
			return err
		}
		return setHead(tx, head)
	})
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
	if err := s.check(); err != nil {
		if cannotOpen(err) {
			err = fmt.Errorf("%w; %s", err, why(err))
		}
		return nil, errors.Join(err, s.Close())
	}
	if s.Old() {
		return nil, errors.Join(fmt.Errorf("%s was begun by an older hopbench (store version %d, this one writes %d), and one run does not mix trials of both; continue with the hopbench that began it, or start a new run. Its report can still be made",
			dir, s.version, version), s.Close())
	}
	if err := s.logAhead(); err != nil {
		return nil, errors.Join(fmt.Errorf("write to %s: %w; %s", dir, err, why(err)), s.Close())
	}
	return s, nil
}

// Open opens an existing run for reading, also while another process writes it,
// and where nothing can be written.
func Open(dir string) (*Store, error) {
	if err := exists(dir); err != nil {
		return nil, err
	}
	s, err := open(dir, false)
	if err != nil {
		return nil, err
	}
	err = s.check()
	if cannotOpen(err) {
		// SQLite wants to write next to a file whose writer was killed, or whose
		// disk is full (sqlite.org/wal.html, "Read-Only Databases").
		if copyErr := s.copyOut(); copyErr != nil {
			return nil, errors.Join(fmt.Errorf("%w; it has to be copied to be read, into the folder for temporary files (TMPDIR): %w", err, copyErr), s.Close())
		}
		err = s.check()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Old says that the run was written by an older hopbench: it can only be read.
func (s *Store) Old() bool { return s.version < version }

// isFile says what a name has that is no file: SQLite waits for ever for who writes into a pipe.
func isFile(name string) error {
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file", name)
	}
	return err
}

func exists(dir string) error {
	if err := isFile(filepath.Join(dir, FileName)); err != nil {
		folder, bad := os.Stat(dir)
		if errors.Is(err, os.ErrNotExist) || bad == nil && !folder.IsDir() {
			return fmt.Errorf("%s: %w (no %s there)", dir, ErrNoRun, FileName)
		}
		return fmt.Errorf("open the run: %w", err)
	}
	return nil
}

func open(dir string, write bool) (*Store, error) {
	s := &Store{openFile: openFile{dir: dir}}
	if write {
		lock, err := Lock(dir)
		if err != nil {
			return nil, err
		}
		s.lock = lock
	}
	if err := s.connect(dir); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// connect prepares to use the file in dir. It is opened at the first use.
func (s *Store) connect(dir string) error {
	// FULL, because a trial costs a second to measure and a sync a millisecond.
	pragmas := []string{"busy_timeout(5000)", "synchronous(FULL)"}
	if s.lock == nil {
		// With a writable schema, which query_only forbids to write, SQLite opens a file
		// that is shorter than it was, as one that was copied in part.
		pragmas = []string{"busy_timeout(5000)", "writable_schema(1)", "query_only(1)"}
	}
	var err error
	s.db, err = database(filepath.Join(dir, FileName), pragmas...)
	return err
}

// database prepares to use a file of SQLite. It is opened at the first use.
func database(file string, pragmas ...string) (*sql.DB, error) {
	name := &url.URL{Scheme: "file", Opaque: (&url.URL{Path: file}).EscapedPath(), RawQuery: url.Values{"_pragma": pragmas}.Encode()}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", filepath.Base(file), err)
	}
	// One connection: there is one writer, and readers are other processes.
	db.SetMaxOpenConns(1)
	return db, nil
}

// logAhead lets readers read while trials are written.
func (s *Store) logAhead() error {
	_, err := s.db.Exec("PRAGMA journal_mode = WAL")
	if err == nil {
		s.begun, err = os.Stat(filepath.Join(s.dir, FileName))
	}
	return err
}

// InPlace says whether the run is still in its folder.
func (s *Store) InPlace() bool { return s.moved() == nil }

// check says what is wrong with the file, ErrNoRun when nothing was ever kept
// in it. It changes nothing: the file may be anybody's.
func (s *Store) check() error {
	file := filepath.Join(s.dir, FileName)
	var heads, trials int
	there, tables, ours, err := inspect(s.db, "head")
	s.version = there
	if err == nil && ours && s.version > 0 && s.version <= version {
		err = s.db.QueryRow("SELECT (SELECT count(*) FROM head), EXISTS (SELECT 1 FROM trial)").Scan(&heads, &trials)
	}
	switch {
	case err != nil:
		return fmt.Errorf("open %s: %w", file, err)
	case tables > 0 && !ours:
		return fmt.Errorf("%s is a database, but not one of hopbench", file)
	case s.version > version:
		return fmt.Errorf("%s was written by a newer hopbench (store version %d, this one knows %d)", file, s.version, version)
	case heads == 0 && trials > 0:
		return fmt.Errorf("%s has trials and no head, which hopbench never leaves: it was changed by something else", file)
	case heads == 0:
		return fmt.Errorf("%s: %w (%s was begun there and stopped before anything was kept; start anew with --out %s)", s.dir, ErrNoRun, FileName, s.dir)
	}
	return nil
}

// cannotOpen says that err is not about what is in the file: SQLite cannot open
// it or what it needs next to it.
func cannotOpen(err error) bool {
	return failedWith(err, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN)
}

// copyOut goes on with a copy of the file, in a folder that can be written.
func (s *Store) copyOut() error {
	var err error
	if s.copied, err = os.MkdirTemp("", "hopbench-read-"); err != nil {
		return err
	}
	for _, suffix := range suffixes {
		if suffix == "-shm" { // made from the others
			continue
		}
		if err := copyFile(filepath.Join(s.copied, FileName+suffix), filepath.Join(s.dir, FileName+suffix)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := s.db.Close(); err != nil {
		return err
	}
	return s.connect(s.copied)
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// Discard closes a run that is not worth keeping and removes it, and the folders that
// were made for it if nothing else is there.
func (s *Store) Discard() error {
	err := s.db.Close()
	s.db = nil
	for _, suffix := range suffixes {
		if gone := os.Remove(filepath.Join(s.dir, FileName+suffix)); !errors.Is(gone, os.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	err = errors.Join(err, s.Close()) // the lock may be a file in the folder (package filelock)
	remove(s.made)
	return err
}

// Close releases the run. A second Close does nothing.
func (s *Store) Close() error {
	if s.db != nil && s.lock != nil {
		// Nobody needs the log now, and without one the file can be read
		// where nothing can be written. A reader or a full disk may prevent
		// that: it stays then, and Open knows what to do.
		_, _ = s.db.Exec("PRAGMA busy_timeout = 0; PRAGMA journal_mode = DELETE")
	}
	err := s.openFile.Close()
	if s.copied != "" {
		err = errors.Join(err, os.RemoveAll(s.copied))
	}
	s.copied = ""
	return err
}
