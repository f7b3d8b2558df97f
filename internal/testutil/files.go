package testutil

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// Files reads the files that match a pattern, and those inside of archives
// (txtar) that match it, under the archive's name as if that were a folder.
func Files(t testing.TB, pattern string) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	dir, name := filepath.Split(pattern)
	for _, glob := range []string{pattern, dir + "*.txtar"} {
		paths, err := filepath.Glob(glob)
		OK(t, err)
		for _, path := range paths {
			text, err := os.ReadFile(path)
			OK(t, err)
			if glob == pattern {
				files[path] = text
				continue
			}
			for _, f := range txtar.Parse(text).Files {
				if match, err := filepath.Match(name, f.Name); err == nil && match {
					files[path+"/"+f.Name] = f.Data
				}
			}
		}
	}
	if len(files) == 0 {
		t.Fatalf("no files match %s", pattern)
	}
	return files
}

// WriteFile writes a file, or one inside of an archive.
func WriteFile(t testing.TB, path string, text []byte) {
	t.Helper()
	archive, name, inside := strings.Cut(path, ".txtar/")
	if !inside {
		OK(t, os.WriteFile(path, text, 0o644))
		return
	}
	a, err := txtar.ParseFile(archive + ".txtar")
	OK(t, err)
	for i := range a.Files {
		if a.Files[i].Name == name {
			a.Files[i].Data = text
		}
	}
	OK(t, os.WriteFile(archive+".txtar", txtar.Format(a), 0o644))
}
