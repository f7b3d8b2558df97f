package filelock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/windows"
)

// Existing locks a file or folder that is there, until what it returns is closed, and
// leaves no trace. The error is ErrHeld where another process did. Folders cannot be
// locked here: a file in it, or next to a file, stands for it meanwhile.
func Existing(name string) (io.Closer, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	stands := name + ".lock"
	if info.IsDir() {
		stands = filepath.Join(name, ".lock")
	}
	held, _, err := Made(stands, "")
	return held, err
}

// Made locks a file that it makes, with a text that says who holds it. Closing removes the
// file, and so does the end of the process, however it ends; one that is there and nobody
// has open is taken over. The error is ErrHeld where another process holds it, and holder
// then what that one wrote.
func Made(name, text string) (held io.Closer, holder string, err error) {
	f, err := open(name)
	if errors.Is(err, windows.ERROR_SHARING_VIOLATION) {
		return nil, read(name), fmt.Errorf("%s: %w", name, ErrHeld)
	}
	if err != nil {
		return nil, "", fmt.Errorf("lock %s: %w", name, err)
	}
	if err = f.Truncate(0); err == nil {
		_, err = f.WriteString(text)
	}
	if err != nil {
		return nil, "", errors.Join(fmt.Errorf("say who holds %s: %w", name, err), f.Close())
	}
	return f, "", nil
}

// A file that its holder has just closed is there until who reads it closes it, too, and
// cannot be opened meanwhile.
const (
	openTries = 20
	openPause = 5 * time.Millisecond
)

// open opens a file for writing that nobody else writes: no other process can open it like
// this before it is closed, which removes it.
func open(name string) (*os.File, error) {
	path, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		h, err := windows.CreateFile(path, windows.GENERIC_READ|windows.GENERIC_WRITE|windows.DELETE,
			windows.FILE_SHARE_READ|windows.FILE_SHARE_DELETE, nil, windows.OPEN_ALWAYS,
			windows.FILE_ATTRIBUTE_NORMAL|windows.FILE_FLAG_DELETE_ON_CLOSE, 0)
		if err == nil {
			return os.NewFile(uintptr(h), name), nil
		}
		leaving := errors.Is(err, windows.ERROR_ACCESS_DENIED) || errors.Is(err, windows.ERROR_DELETE_PENDING)
		if !leaving || try == openTries {
			return nil, err
		}
		time.Sleep(openPause)
	}
}

// read is what the holder of a file says of itself, "" where that cannot be read: it helps
// to know, no more.
func read(name string) string {
	path, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return ""
	}
	h, err := windows.CreateFile(path, windows.GENERIC_READ,
		windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE, nil, windows.OPEN_EXISTING, 0, 0)
	if err != nil {
		return ""
	}
	f := os.NewFile(uintptr(h), name)
	said, _ := io.ReadAll(io.LimitReader(f, maxHolder))
	_ = f.Close()
	return string(said)
}
