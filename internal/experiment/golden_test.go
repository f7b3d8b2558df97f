package experiment

import (
	"errors"
	"flag"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hopbench/hopbench/internal/testutil"
)

var update = flag.Bool("update", false, "write the golden files of testdata/bad anew")

// TestBadFiles compares what Load says of each bad file with the text file of the
// same name: one mistake per file, and five in one.
func TestBadFiles(t *testing.T) {
	wanted := testutil.Files(t, "testdata/bad/*.txt")
	for file, text := range testutil.Files(t, "testdata/bad/*.yaml") {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			e, err := Load("my.yaml", text)
			if err == nil {
				t.Fatalf("accepted as %+v", e)
			}
			var problems Errors
			if !errors.As(err, &problems) {
				t.Fatalf("error is a %T, not Errors: %v", err, err)
			}
			if name == "five-mistakes" && len(problems) != 5 {
				t.Errorf("%d problems in a file with five mistakes", len(problems))
			}
			checkProblems(t, problems, text)
			golden := strings.TrimSuffix(file, ".yaml") + ".txt"
			// What a kind can have is the table's to say.
			got := regexp.MustCompile("it can have [a-z0-9_, ]+").ReplaceAllString(err.Error(), "it can have …") + "\n"
			if *update {
				testutil.WriteFile(t, golden, []byte(got))
			} else if want := string(wanted[golden]); got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// checkProblems checks what holds for every report: a position in the file,
// ascending order, one line of text per message, a caret beneath the column.
func checkProblems(t *testing.T, problems Errors, text []byte) {
	t.Helper()
	lines := len(splitLines(text))
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

func TestManyMistakesAreCut(t *testing.T) {
	text := "format: hopbench.experiment/1\n" + strings.Repeat("? [x]\n: y\n", 500)
	_, err := Load("my.yaml", []byte(text))
	var problems Errors
	if !errors.As(err, &problems) {
		t.Fatalf("got %v", err)
	}
	if len(problems) != maxProblems+1 || !strings.Contains(problems[maxProblems].Message, "more mistakes") {
		t.Errorf("%d problems, the last %q", len(problems), problems[len(problems)-1].Message)
	}
}

func TestTooLarge(t *testing.T) {
	_, err := Load("my.yaml", []byte("# "+strings.Repeat("x", MaxFileBytes)))
	if err == nil || !strings.Contains(err.Error(), "more than the 1048576") {
		t.Errorf("got %v", err)
	}
}

// A key that a kind of test does not take is answered with those that it does.
func TestKeysOfAKindAreSaid(t *testing.T) {
	_, err := Load("my.yaml", testutil.Files(t, "testdata/bad/full-of-trace.yaml")["testdata/bad/tests.txtar/full-of-trace.yaml"])
	if err == nil || !strings.Contains(err.Error(), "it can have protocol, max_hops or timeout\n") {
		t.Errorf("got %v", err)
	}
}
