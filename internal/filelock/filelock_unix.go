//go:build unix

package filelock

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Existing locks a file or folder that is there, until what it returns is closed, and
// leaves no trace. The error is ErrHeld where another process did.
func Existing(name string) (io.Closer, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Made locks a file that it makes, with a text that says who holds it. Closing removes the
// file; one that a killed process left behind is taken over. The error is ErrHeld where
// another process holds it, and holder then what that one wrote.
func Made(name, text string) (held io.Closer, holder string, err error) {
	for {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, "", err
		}
		if err := lock(f); err != nil {
			said, _ := io.ReadAll(io.LimitReader(f, maxHolder)) // it helps to know, no more
			return nil, string(said), errors.Join(err, f.Close())
		}
		if there, err := sameFile(f, name); err != nil {
			return nil, "", errors.Join(err, f.Close())
		} else if !there { // whoever held it removed it meanwhile
			if err := f.Close(); err != nil {
				return nil, "", err
			}
			continue
		}
		m := made{f}
		if err := m.write(text); err != nil {
			return nil, "", errors.Join(fmt.Errorf("say who holds %s: %w", name, err), m.Close())
		}
		return m, "", nil
	}
}

type made struct{ *os.File }

func (m made) write(text string) error {
	if err := m.Truncate(0); err != nil {
		return err
	}
	_, err := m.WriteAt([]byte(text), 0)
	return err
}

// Close removes the file before others can lock it.
func (m made) Close() error { return errors.Join(os.Remove(m.Name()), m.File.Close()) }

func lock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return fmt.Errorf("%s: %w", f.Name(), ErrHeld)
	case err != nil:
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil
}

// sameFile says that a name still is that of an open file.
func sameFile(f *os.File, name string) (bool, error) {
	is, err := f.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(is, named), err
}
