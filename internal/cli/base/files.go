package base

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/hopbench/hopbench/internal/spelling"
)

// maxNear bounds the files of a folder among which a misspelled one is looked for.
const maxNear = 10_000

// Missing adds to the error of a file which one of the same folder was probably meant, if
// there is no such file, and else what to do, unless that is empty.
func Missing(path string, err error, advice string) error {
	if near := nearFile(path); near != "" && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; did you mean %s?", err, near)
	}
	if advice != "" {
		return fmt.Errorf("%w; %s", err, advice)
	}
	return err
}

func nearFile(path string) string {
	folder, name := filepath.Split(path)
	f, err := os.Open(cmp.Or(folder, "."))
	if err != nil {
		return ""
	}
	defer f.Close()
	names, _ := f.Readdirnames(maxNear) // as far as it can be read
	slices.Sort(names)
	if near := spelling.Nearest(name, names); near != "" {
		return folder + near
	}
	return ""
}

// ReadBounded reads a file of at most so many bytes.
func ReadBounded(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return text, err
}

// WriteJSON writes a document for programs that people can read, too.
func WriteJSON(w io.Writer, document any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(document)
}
