package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// writeAtomically replaces a file only once its new text is whole and on disk.
// Others may do so at the same time: each text is whole, and the last one stays.
func writeAtomically(path string, write func(io.Writer) error) error {
	var text bytes.Buffer
	if err := write(&text); err != nil {
		return fmt.Errorf("render %s: %w", filepath.Base(path), err)
	}
	// Not os.CreateTemp, whose files nobody else may read, whatever the umask.
	temporary := fmt.Sprintf("%s.%016x.new", path, rand.Uint64())
	f, err := os.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = f.Write(text.Bytes())
		err = errors.Join(err, f.Sync(), f.Close())
		if err == nil {
			err = os.Rename(temporary, path)
		}
		if err != nil {
			_ = os.Remove(temporary)
		}
	}
	if err != nil {
		return fmt.Errorf("write %s: %w; is the disk full or the folder read-only?", filepath.Base(path), err)
	}
	return nil
}
