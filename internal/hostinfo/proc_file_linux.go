package hostinfo

import (
	"fmt"
	"io"
	"os"
)

// maxProcFile bounds what is read of a file of /proc: that of a host with a
// thousand CPUs or interfaces is well below.
const maxProcFile = 4 << 20

func readProc(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // opened for reading
	text, err := io.ReadAll(io.LimitReader(f, maxProcFile))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return text, nil
}
