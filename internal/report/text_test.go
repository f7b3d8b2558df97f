package report

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/hopbench/hopbench/internal/result"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// golden compares got with testdata/name.
func golden(t *testing.T, name string, got []byte) {
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

func terminalText(t *testing.T, r *result.Result, o Options) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Terminal(&b, r, o); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestTerminalGolden(t *testing.T) {
	r := fixture(t, 10)
	golden(t, "terminal-100.txt", terminalText(t, r, Options{Width: 100}))
	golden(t, "terminal-80.txt", terminalText(t, r, Options{Width: 80}))
	golden(t, "terminal-colour.txt", terminalText(t, r, Options{Width: 100, Colour: true}))
	golden(t, "terminal-3-blocks.txt", terminalText(t, fixture(t, 3), Options{Width: 100}))
}

func TestMarkdownGolden(t *testing.T) {
	var b bytes.Buffer
	if err := Markdown(&b, fixture(t, 10)); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.md", b.Bytes())
}

func TestCSVGolden(t *testing.T) {
	var b bytes.Buffer
	if err := CSV(&b, fixture(t, 1)); err != nil {
		t.Fatal(err)
	}
	golden(t, "trials.csv", b.Bytes())
}
