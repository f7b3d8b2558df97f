package reporttest

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// Golden compares got with testdata/name.
func Golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (write it with go test -update)", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs from what is rendered; look at the difference and run go test -update when it is meant:\n%s", file, firstDifference(got, want))
	}
}

func firstDifference(got, want []byte) string {
	g, w := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range max(len(g), len(w)) {
		if i >= len(g) || i >= len(w) || !bytes.Equal(g[i], w[i]) {
			at := func(l [][]byte) string {
				if i < len(l) {
					return string(l[i])
				}
				return "(end)"
			}
			return "got  " + at(g) + "\nwant " + at(w)
		}
	}
	return "no difference"
}
