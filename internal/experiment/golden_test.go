package experiment

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/strict"
	"github.com/hopbench/hopbench/internal/strict/stricttest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// What is said of each bad file: one mistake per file, and five in one.
func TestBadFiles(t *testing.T) {
	stricttest.BadFiles(t, "testdata/bad/*", func(name string, text []byte) (string, error) {
		_, err := Load("my.yaml", text)
		if err == nil {
			return "", nil
		}
		var problems strict.Errors
		if errors.As(err, &problems) && name == "five-mistakes" && len(problems) != 5 {
			t.Errorf("%d problems in a file with five mistakes", len(problems))
		}
		// Which kinds and hops there are, and what one can have, is the tables' to say.
		said := strings.ReplaceAll(err.Error(), "write "+kind.Either(kindNames()), "write a kind")
		said = strings.ReplaceAll(said, bypassable(), "hop to bypass")
		return regexp.MustCompile("it can have [a-z0-9_, ]+").ReplaceAllString(said, "it can have …"), err
	})
}

func TestManyMistakesAreCut(t *testing.T) {
	text := "format: hopbench.experiment/1\n" + strings.Repeat("? [x]\n: y\n", 500)
	_, err := Load("my.yaml", []byte(text))
	var problems strict.Errors
	if !errors.As(err, &problems) {
		t.Fatalf("got %v", err)
	}
	if len(problems) != 51 || !strings.Contains(problems[50].Message, "more mistakes") {
		t.Errorf("%d problems, the last %q", len(problems), problems[len(problems)-1].Message)
	}
}

func TestTooLarge(t *testing.T) {
	_, err := Load("my.yaml", []byte("# "+strings.Repeat("x", strict.MaxFileBytes)))
	if err == nil || !strings.Contains(err.Error(), "more than the 1048576") {
		t.Errorf("got %v", err)
	}
}

// A key that a kind of test does not take is answered with those that it does.
func TestKeysOfAKindAreSaid(t *testing.T) {
	_, err := Load("my.yaml", testutil.Files(t, "testdata/bad/full-of-trace.yaml")["testdata/bad/tests.txtar/full-of-trace.yaml"])
	if err == nil || !strings.Contains(err.Error(), "it can have protocol, max_hops, missing or timeout\n") {
		t.Errorf("got %v", err)
	}
}
