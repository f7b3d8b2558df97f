// Package atomicfile replaces files as a whole: whoever reads one, and whoever is killed
// while one is written, finds the old text or the new one.
package atomicfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
)

// Write replaces a file only once its new text is whole and on disk. The text may be
// larger than memory.
// Others may do so at the same time: each text is whole, and the last one stays.
func Write(path string, write func(io.Writer) error) error {
	// A device or a pipe would not be written to, but replaced.
	if there, err := os.Stat(path); err == nil && !there.Mode().IsRegular() {
		return fmt.Errorf("write %s: it is there, and is no file", path)
	}
	// Not os.CreateTemp, whose files nobody else may read, whatever the umask.
	temporary := fmt.Sprintf("%s.%016x.new", path, rand.Uint64())
	f, err := os.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return failed(path, err)
	}
	text := bufio.NewWriterSize(f, 64<<10)
	if err = write(text); err != nil {
		err = fmt.Errorf("render %s: %w", filepath.Base(path), err)
	}
	// Flush also tells of writes that failed before.
	disk := errors.Join(text.Flush(), f.Sync(), f.Close())
	if err == nil && disk == nil {
		disk = os.Rename(temporary, path)
	}
	switch {
	case disk != nil:
		err = failed(path, disk)
	case err == nil:
		return nil
	}
	_ = os.Remove(temporary)
	return err
}

func failed(path string, err error) error {
	why := "is the disk full or the folder read-only?"
	if errors.Is(err, syscall.EMFILE) {
		why = "raise the limit of open files (ulimit -n)"
	}
	return fmt.Errorf("write %s: %w; %s", filepath.Base(path), err, why)
}
