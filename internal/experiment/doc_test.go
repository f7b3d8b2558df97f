package experiment

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
)

func readDoc(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/experiment-file.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// between cuts what lies between two marks out of the document.
func between(t *testing.T, doc, start, end string) string {
	t.Helper()
	_, rest, found := strings.Cut(doc, start)
	inside, _, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("the document has nothing between %q and %q", start, end)
	}
	return inside
}

func TestDocExampleLoads(t *testing.T) {
	example := between(t, readDoc(t), "```yaml\n", "```\n")
	e, err := Load("docs/experiment-file.md", []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	if e.Name != "my-firewall" || len(e.Paths) != 2 || len(e.Tests) != 3 || len(e.Warnings()) > 0 {
		t.Errorf("loaded %+v", e)
	}
	checkAccepted(t, e)
}

// The messages that the document shows are those that its mistakes give.
func TestDocMessages(t *testing.T) {
	doc := readDoc(t)
	example := between(t, doc, "```yaml\n", "```\n")
	example = strings.Replace(example, "{name: client, egress_rate: 1Gbit}", "{name: client, egress_rate: 1.2Gbps}", 1)
	example = strings.Replace(example, "\nbaseline:", "\nbasline:", 1)
	_, err := Load("my.yaml", []byte(example))
	if err == nil {
		t.Fatal("the mistakes are accepted")
	}
	if want := between(t, doc, "in one go:\n\n```\n", "\n```\n"); err.Error() != want {
		t.Errorf("the document shows\n%s\nwhere Load says\n%v", want, err)
	}
}

// Every key of the format is in the document.
func TestDocHasEveryKey(t *testing.T) {
	doc := readDoc(t)
	for _, kind := range []reflect.Type{
		reflect.TypeFor[File](), reflect.TypeFor[FileEndpoint](), reflect.TypeFor[FilePath](), reflect.TypeFor[FileTunnel](), reflect.TypeFor[FileHop](), reflect.TypeFor[FileScaleOut](),
		reflect.TypeFor[FileTest](), reflect.TypeFor[FileLength](), reflect.TypeFor[FilePublished](), reflect.TypeFor[FileFigure](),
	} {
		for _, key := range keysOf(kind) {
			if !strings.Contains(doc, "`"+key+"`") {
				t.Errorf("key %s of %s is not in the document", key, kind.Name())
			}
		}
	}
}

func TestDocHasEveryMetric(t *testing.T) {
	quantity := map[measurement.Unit]string{
		measurement.BitsPerSecond: "rate", measurement.SecondsUnit: "time", measurement.Bytes: "size",
		measurement.Fraction: "fraction", measurement.Count: "plain number",
		measurement.SecondsPerByte: "time per byte", measurement.SecondsPerPacket: "time per packet",
	}
	var want strings.Builder
	for _, m := range measurement.Catalogue() {
		var kinds []string
		for _, kind := range m.Kinds {
			kinds = append(kinds, string(kind))
		}
		fmt.Fprintf(&want, "| `%s` | %s | %s |\n", m.Name, strings.Join(kinds, ", "), quantity[m.Unit])
	}
	table := between(t, readDoc(t), "<!-- metrics:", "<!-- end of metrics -->")
	_, got, _ := strings.Cut(table, "|---|---|---|\n")
	if got != want.String() {
		t.Errorf("the document's table of metrics should be\n%s", want.String())
	}
}

// The document's table of the keys of a test says of every key, in the order of
// FileTest, which kinds can have it.
func TestDocHasEveryKeyOfATest(t *testing.T) {
	table := between(t, readDoc(t), "<!-- keys:", "<!-- end of keys -->")
	_, rows, _ := strings.Cut(table, "|---|---|---|---|\n")
	var keys []string
	for row := range strings.Lines(rows) {
		cells := strings.Split(row, "|")
		for _, key := range strings.Split(cells[1], ",") {
			key = strings.Trim(key, " `")
			keys = append(keys, key)
			want := "all"
			if kinds := KindsOf(key); len(kinds) < len(measurement.Kinds()) {
				var names []string
				for _, kind := range kinds {
					names = append(names, string(kind))
				}
				want = strings.Join(names, ", ")
			}
			if got := strings.TrimSpace(cells[2]); got != want {
				t.Errorf("the document gives %s to %s, the loader to %s", key, got, want)
			}
		}
	}
	if want := keysOf(reflect.TypeFor[FileTest]()); !reflect.DeepEqual(keys, want) {
		t.Errorf("the document has the keys\n%v\nwhere a test has\n%v", keys, want)
	}
}

// The document's table of kinds has every kind, in order.
func TestDocHasEveryKind(t *testing.T) {
	_, rows, _ := strings.Cut(readDoc(t), "| kind | measures |\n|---|---|\n")
	rows, _, _ = strings.Cut(rows, "\n\n")
	var kinds []measurement.Kind
	for row := range strings.Lines(rows) {
		kinds = append(kinds, measurement.Kind(strings.Trim(strings.Split(row, "|")[1], " `")))
	}
	if !reflect.DeepEqual(kinds, measurement.Kinds()) {
		t.Errorf("the document has the kinds %v, want %v", kinds, measurement.Kinds())
	}
}
