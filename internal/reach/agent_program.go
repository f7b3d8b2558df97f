package reach

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/hopbench/hopbench/internal/testbed/inventory"
)

// program is a hopbench that is copied to another host.
type program struct {
	path   string
	plain  []byte
	packed []byte // by gzip
	digest string // SHA-256 of plain, in hexadecimal
}

// findProgram is the hopbench for a system and a CPU as Go names them: the one that
// the testbed file names, the slim one next to this program, this very program, or a whole
// one next to it.
func findProgram(e inventory.Endpoint, goos, goarch string) (*program, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	if e.Binary != "" {
		return readProgram(e.Binary, e.Binary)
	}
	dir, system := filepath.Dir(self), goos+"-"+goarch
	slim := filepath.Join(dir, "hopbench-agent-"+system)
	if p, err := readProgram(slim, slim); !errors.Is(err, fs.ErrNotExist) {
		return p, err
	}
	if goos == runtime.GOOS && goarch == runtime.GOARCH {
		if goos == "linux" {
			// It may have been replaced or removed since it was started.
			return readProgram("/proc/self/exe", self)
		}
		return readProgram(self, self)
	}
	beside := filepath.Join(dir, "hopbench-"+system)
	p, err := readProgram(beside, beside)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("it is %[1]s/%[2]s, and there is no hopbench for that here: put one at %[3]s, or name it with the key binary (GOOS=%[1]s GOARCH=%[2]s CGO_ENABLED=0 go build -tags agent -o hopbench-agent-%[1]s-%[2]s ./cmd/hopbench makes it)", goos, goarch, slim)
	}
	return p, err
}

// readProgram reads a program from a file, and packs it fast: even so it is half as
// long, and the network is what takes time.
func readProgram(file, path string) (*program, error) {
	plain, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the program to copy: %w", err)
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err == nil {
		_, err = w.Write(plain)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("pack %s: %w", path, err)
	}
	sum := sha256.Sum256(plain)
	return &program{path: path, plain: plain, packed: packed.Bytes(), digest: hex.EncodeToString(sum[:])}, nil
}
