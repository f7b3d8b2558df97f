package inventory

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/strict/stricttest"
	"github.com/hopbench/hopbench/internal/testutil"
)

func readDoc(t *testing.T) (doc string, examples []string) {
	t.Helper()
	return stricttest.Document(t, "../../../docs/testbed-file.md")
}

// The document's example loads, with its hops, too; its mistakes are those that it
// shows.
func TestDocExamples(t *testing.T) {
	doc, examples := readDoc(t)
	if len(examples) < 3 {
		t.Fatalf("the document has %d examples", len(examples))
	}
	in, err := Load("docs/testbed-file.md", []byte(examples[0]), nil)
	testutil.OK(t, err)
	if len(in.Paths) != 3 || len(in.Switches) != 1 {
		t.Errorf("loaded %+v", in)
	}
	whole := strings.Replace(examples[0], "direct: {to: 10.0.0.7}", "direct: {to: 10.0.0.7, hops: [firewall, nva, core, log]}\n", 1)
	whole = strings.Replace(whole, "paths:\n", "  nva-vm: {reach: ssh://nva}\npaths:\n", 1) + examples[1]
	if in, err = Load("docs/testbed-file.md", []byte(whole), nil); err != nil || len(in.Hops) != 4 {
		t.Errorf("with hops: %+v, %v", in, err)
	}
	for _, example := range examples[2:] { // one for each other kind
		_, err = Load("docs/testbed-file.md", []byte(example), nil)
		testutil.OK(t, err)
	}
	wrong := strings.Replace(examples[0], "direct: {to: 10.0.0.7}", "direct: {to: fw.example.com}", 1)
	wrong = strings.Replace(wrong, "{inspection: deny}", "{inspection: dney}", 1)
	_, err = Load("my.yaml", []byte(wrong), nil)
	if err == nil {
		t.Fatal("the mistakes are accepted")
	}
	if !strings.Contains(doc, "\n```\n"+err.Error()+"\n```\n") {
		t.Errorf("the document does not show what Load says:\n%v", err)
	}
}

// What the other documents say that a path is expected to show loads as well.
func TestDocExpectations(t *testing.T) {
	texts := testutil.Files(t, "../../../docs/*.md")
	found := 0
	for file, text := range texts {
		for _, expect := range regexp.MustCompile("`(expect: {[^}]*: [^}]*})`").FindAllSubmatch(text, -1) {
			found++
			_, err := Load(file, fmt.Appendf(nil, "format: hopbench.testbed/1\nname: office\nkind: hosts\nendpoints: {a: {reach: local}, b: {reach: \"ssh://b\"}}\npaths: {p: {to: 10.0.0.7, %s}}\n", expect[1]), nil)
			testutil.OK(t, err)
		}
	}
	if found < 2 {
		t.Errorf("%d expectations in %d documents", found, len(texts))
	}
}

// Every key and every word of the format is in the document.
func TestDocHasEveryKey(t *testing.T) {
	doc, _ := readDoc(t)
	stricttest.CheckDocument(t, doc,
		reflect.TypeFor[File](), reflect.TypeFor[FileBroker](), reflect.TypeFor[FileQueue](), reflect.TypeFor[FileEndpoint](), reflect.TypeFor[FilePath](), reflect.TypeFor[FileExpectation](), reflect.TypeFor[FileSwitch](),
		reflect.TypeFor[FileHop](), reflect.TypeFor[FileAgentMeter](), reflect.TypeFor[FilePrometheusMeter](), reflect.TypeFor[FileSNMPMeter](), reflect.TypeFor[FileCSVMeter]())
	for _, kind := range Kinds() {
		if !strings.Contains(doc, "`"+kind+"`") || !strings.Contains(doc, "\nkind: "+kind+"\n") {
			t.Errorf("the document has no example of kind %s", kind)
		}
	}
	for _, d := range []string{"`1s`", "`2m`", "`1s` to `6h`", "up to `1h`", "`5m`", "`24h`", "1000", "`30s`", "`3s` to `1h`"} {
		if !strings.Contains(doc, d) {
			t.Errorf("the document lacks %s", d)
		}
	}
	if defaultSettle.String() != "1s" || defaultTimeout.String() != "2m0s" || minTimeout.String() != "1s" || maxTimeout.String() != "6h0m0s" || maxSettle.String() != "1h0m0s" ||
		defaultWait.String() != "5m0s" || maxWait.String() != "24h0m0s" || defaultMaxAgents != 1000 ||
		DefaultLease.String() != "30s" || minLease.String() != "3s" || maxLease.String() != "1h0m0s" {
		t.Error("the document has other defaults and bounds than the loader")
	}
}
