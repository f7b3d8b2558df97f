package experiment

import (
	"reflect"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/strict/stricttest"
	"github.com/hopbench/hopbench/internal/testutil"
)

func readDoc(t *testing.T) (doc string, examples []string) {
	t.Helper()
	return stricttest.Document(t, "../../docs/experiment-file.md")
}

func TestDocExampleLoads(t *testing.T) {
	_, examples := readDoc(t)
	e, err := Load("docs/experiment-file.md", []byte(examples[0]))
	testutil.OK(t, err)
	if e.Name != "my-firewall" || len(e.Paths) != 2 || len(e.Tests) != 3 {
		t.Errorf("loaded %+v", e)
	}
	checkAccepted(t, e)
}

// The messages that the document shows are those that its mistakes give.
func TestDocMessages(t *testing.T) {
	doc, examples := readDoc(t)
	example := strings.Replace(examples[0], "{name: client, egress_rate: 1Gbit}", "{name: client, egress_rate: 1.2Gbps}", 1)
	example = strings.Replace(example, "\nbaseline:", "\nbasline:", 1)
	_, err := Load("my.yaml", []byte(example))
	if err == nil {
		t.Fatal("the mistakes are accepted")
	}
	if !strings.Contains(doc, "in one go:\n\n```\n"+err.Error()+"\n```\n") {
		t.Errorf("the document does not show what Load says:\n%v", err)
	}
}

// Every key of the format is in the document.
func TestDocHasEveryKey(t *testing.T) {
	doc, _ := readDoc(t)
	stricttest.CheckDocument(t, doc,
		reflect.TypeFor[File](), reflect.TypeFor[FileEndpoint](), reflect.TypeFor[FilePath](), reflect.TypeFor[FileTunnel](),
		reflect.TypeFor[FileTest](), reflect.TypeFor[FileLength](), reflect.TypeFor[FilePublished](), reflect.TypeFor[FileContrast](), reflect.TypeFor[FilePair](), reflect.TypeFor[FileFigure]())
}
