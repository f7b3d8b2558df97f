// Package stricttest holds for every kind of file what is said of its mistakes.
package stricttest

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hopbench/hopbench/internal/strict"
	"github.com/hopbench/hopbench/internal/testutil"
)

var update = flag.Bool("update", false, "write the golden files of bad files anew")

// BadFiles compares what loading says of each file that matches pattern and ends in
// .yaml with the file of the same name that ends in .txt. Load gives that as text,
// and the error itself.
func BadFiles(t *testing.T, pattern string, load func(name string, text []byte) (string, error)) {
	t.Helper()
	wanted := testutil.Files(t, pattern+".txt")
	for file, text := range testutil.Files(t, pattern+".yaml") {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			got, err := load(name, text)
			if err == nil {
				t.Fatal("the file is accepted")
			}
			CheckErrors(t, err, text)
			got += "\n"
			golden := strings.TrimSuffix(file, ".yaml") + ".txt"
			if *update {
				testutil.WriteFile(t, golden, []byte(got))
			} else if want := string(wanted[golden]); got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// Document reads a document and lists the files of YAML in it.
func Document(t *testing.T, file string) (doc string, examples []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	testutil.OK(t, err)
	doc = string(text)
	for _, rest := range strings.Split(doc, "\n```yaml\n")[1:] {
		example, _, _ := strings.Cut(rest, "\n```\n")
		examples = append(examples, example+"\n")
	}
	if len(examples) == 0 {
		t.Fatalf("%s has no example", file)
	}
	return doc, examples
}

// CheckDocument checks that a document has every key of the types of a file, and every
// word that their tags list.
func CheckDocument(t *testing.T, doc string, types ...reflect.Type) {
	t.Helper()
	for _, typ := range types {
		for i, key := range strict.KeysOf(typ) {
			if key != "-" && !strings.Contains(doc, "`"+key+"`") {
				t.Errorf("key %s of %s is not in the document", key, typ.Name())
			}
			for tag := range strings.SplitSeq(typ.Field(i).Tag.Get("jsonschema"), ",") {
				if word, ok := strings.CutPrefix(tag, "enum="); ok && !strings.Contains(doc, "`"+word+"`") {
					t.Errorf("word %s of %s is not in the document", word, typ.Name())
				}
			}
		}
	}
}

// CheckErrors checks what holds for every report of a file's mistakes: a position in
// the file, ascending order, one line of text per message, a caret beneath the column.
func CheckErrors(t *testing.T, err error, text []byte) {
	t.Helper()
	var problems strict.Errors
	if !errors.As(err, &problems) || len(problems) == 0 {
		t.Fatalf("error is a %T, not strict.Errors: %v", err, err)
	}
	breaks := strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n")
	lines := strings.Count(breaks.Replace(string(text)), "\n") + 1
	for i, p := range problems {
		if p.File == "" || p.Line < 1 || p.Line > lines || p.Column < 1 {
			t.Errorf("position %s:%d:%d is outside of the file", p.File, p.Line, p.Column)
		}
		if p.Message == "" || strings.ContainsAny(p.Message+p.Remedy, "\n\r\x1b\t") || !utf8.ValidString(p.String()) {
			t.Errorf("message %q; %q is not one printable line", p.Message, p.Remedy)
		}
		if i > 0 && problems[i-1].Line > p.Line {
			t.Errorf("problem at line %d comes after line %d", p.Line, problems[i-1].Line)
		}
		if p.Snippet != "" && (strings.Count(p.Snippet, "\n") != 1 || !strings.HasSuffix(p.Snippet, "^")) {
			t.Errorf("snippet %q is not a line with a caret beneath", p.Snippet)
		}
	}
}
