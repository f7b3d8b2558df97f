package experiment

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

var update = flag.Bool("update", false, "write the golden files of testdata/bad anew")

// TestBadFiles holds what Load says of each testdata/bad/*.yaml against the
// text file of the same name: one mistake per file, and five in one.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no bad files: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
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
			got := regexp.MustCompile("it can have [a-z_, ]+").ReplaceAllString(err.Error(), "it can have …") + "\n"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
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
		if p.Message == "" || strings.ContainsAny(p.Message+p.Mend, "\n\r\x1b\t") || !utf8.ValidString(p.String()) {
			t.Errorf("message %q; %q is not one printable line", p.Message, p.Mend)
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
	text, err := os.ReadFile("testdata/bad/full-of-trace.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, err = Load("my.yaml", text)
	if err == nil || !strings.Contains(err.Error(), "it can have protocol, max_hops or timeout\n") {
		t.Errorf("got %v", err)
	}
}
