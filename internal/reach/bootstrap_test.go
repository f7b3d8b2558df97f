package reach

import (
	"bufio"
	"bytes"
	"io"
	"testing"

	"github.com/hopbench/hopbench/internal/testbed/inventory"
)

// FuzzDialog: whatever a far host says, the dialog with it ends, in a sentence.
func FuzzDialog(f *testing.F) {
	for _, said := range []string{
		"", "welcome\n", "hopbench: here Linux x86_64 gzip\n", "hopbench: here Windows_NT AMD64 plain\n",
		"motd\r\n$ hopbench: here Linux aarch64 plain\nhopbench: no full /tmp\nhopbench: none\n",
		"hopbench: here Linux x86_64 gzip\nhopbench: go\nhopbench: run\n\xf0hopbnc\x01",
		"hopbench: here Linux x86_64 gzip\nhopbench: go\nhopbench: failed write /tmp\x1b[2J\n",
	} {
		f.Add([]byte(said))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		d := &dialog{in: bufio.NewReader(bytes.NewReader(said)), out: io.Discard}
		err := d.start(func(goos, goarch string) (*program, error) {
			return &program{path: "hopbench", plain: []byte("x"), packed: []byte("y"), digest: "z"}, nil
		})
		if err == nil {
			return
		}
		wantError(t, err)
		wantError(t, explainSSH(inventory.Reach{Host: "h"}, string(said), d.babble, err))
	})
}
