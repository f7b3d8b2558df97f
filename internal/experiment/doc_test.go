package experiment

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/strict"
	"github.com/hopbench/hopbench/internal/testutil"
)

func readDoc(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/experiment-file.md")
	testutil.OK(t, err)
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
	testutil.OK(t, err)
	if e.Name != "my-firewall" || len(e.Paths) != 2 || len(e.Tests) != 3 {
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
		reflect.TypeFor[FileTest](), reflect.TypeFor[FileLength](), reflect.TypeFor[FilePublished](), reflect.TypeFor[FileContrast](), reflect.TypeFor[FilePair](), reflect.TypeFor[FileFigure](),
	} {
		for _, key := range strict.KeysOf(kind) {
			if key != "-" && !strings.Contains(doc, "`"+key+"`") {
				t.Errorf("key %s of %s is not in the document", key, kind.Name())
			}
		}
	}
}
