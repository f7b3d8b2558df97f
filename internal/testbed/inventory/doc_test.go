package inventory

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
	text, err := os.ReadFile("../../../docs/testbed-file.md")
	testutil.OK(t, err)
	return string(text)
}

// examples lists the YAML of a document.
func examples(doc string) (texts []string) {
	for _, rest := range strings.Split(doc, "\n```yaml\n")[1:] {
		text, _, _ := strings.Cut(rest, "\n```\n")
		texts = append(texts, text+"\n")
	}
	return texts
}

// The document's example loads, with its hops, too; its mistakes are those that it
// shows.
func TestDocExamples(t *testing.T) {
	doc := readDoc(t)
	examples := examples(doc)
	if len(examples) != 2 {
		t.Fatalf("the document has %d examples", len(examples))
	}
	in, err := Load("docs/testbed-file.md", []byte(examples[0]))
	testutil.OK(t, err)
	if len(in.Paths) != 3 || len(in.Switches) != 1 {
		t.Errorf("loaded %+v", in)
	}
	whole := strings.Replace(examples[0], "direct: {to: 10.0.0.7}", "direct: {to: 10.0.0.7, hops: [firewall, nva, core, log]}\n", 1)
	whole = strings.Replace(whole, "paths:\n", "  nva-vm: {reach: ssh://nva}\npaths:\n", 1) + examples[1]
	if in, err = Load("docs/testbed-file.md", []byte(whole)); err != nil || len(in.Hops) != 4 {
		t.Errorf("with hops: %+v, %v", in, err)
	}
	wrong := strings.Replace(examples[0], "direct: {to: 10.0.0.7}", "direct: {to: fw.example.com}", 1)
	wrong = strings.Replace(wrong, "{inspection: deny}", "{inspection: dney}", 1)
	_, err = Load("my.yaml", []byte(wrong))
	if err == nil {
		t.Fatal("the mistakes are accepted")
	}
	if !strings.Contains(doc, "\n```\n"+err.Error()+"\n```\n") {
		t.Errorf("the document does not show what Load says:\n%v", err)
	}
}

// Every key and every word of the format is in the document.
func TestDocHasEveryKey(t *testing.T) {
	doc := readDoc(t)
	for _, typ := range []reflect.Type{
		reflect.TypeFor[File](), reflect.TypeFor[FileEndpoint](), reflect.TypeFor[FilePath](), reflect.TypeFor[FileExpectation](), reflect.TypeFor[FileSwitch](),
		reflect.TypeFor[FileHop](), reflect.TypeFor[FileAgentMeter](), reflect.TypeFor[FilePrometheusMeter](), reflect.TypeFor[FileSNMPMeter](), reflect.TypeFor[FileCSVMeter](),
	} {
		for i, key := range strict.KeysOf(typ) {
			if !strings.Contains(doc, "`"+key+"`") {
				t.Errorf("key %s of %s is not in the document", key, typ.Name())
			}
			for _, tag := range strings.Split(typ.Field(i).Tag.Get("jsonschema"), ",") {
				if word, ok := strings.CutPrefix(tag, "enum="); ok && !strings.Contains(doc, "`"+word+"`") {
					t.Errorf("word %s of %s is not in the document", word, typ.Name())
				}
			}
		}
	}
	for _, d := range []string{"`1s`", "`2m`", "`1s` to `6h`", "up to `1h`"} {
		if !strings.Contains(doc, d) {
			t.Errorf("the document lacks %s", d)
		}
	}
	if defaultSettle.String() != "1s" || defaultTimeout.String() != "2m0s" || minTimeout.String() != "1s" || maxTimeout.String() != "6h0m0s" || maxSettle.String() != "1h0m0s" {
		t.Error("the document has other defaults and bounds than the loader")
	}
}
