package live

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/store"
)

// writtenHere are the files of one run and of several that hopbench writes into their folder
// by itself.
var writtenHere = []string{"report.html", "report.md", "result.json", "trials.csv", "pairs.csv", "index.html", "index.md", "index.json"}

// NotOfRun refuses to write something else into a file of a run, which would end the run or be
// overwritten at its end: into a database anywhere, and into the reports of a folder that has
// one, or will have one.
func NotOfRun(file, folder string) error {
	name := filepath.Base(file)
	if !store.IsDatabase(file) {
		if !slices.Contains(writtenHere, name) {
			return nil
		}
		dir := filepath.Dir(file)
		at, err := os.Stat(dir)
		if err != nil {
			return nil // nor can the file be written
		}
		run, err := os.Stat(folder)
		_, noRun := os.Stat(filepath.Join(dir, store.FileName))
		_, noIndex := os.Stat(filepath.Join(dir, "index.json"))
		if (err != nil || !os.SameFile(at, run)) && noRun != nil && noIndex != nil {
			return nil
		}
	}
	return base.Usage(fmt.Errorf("%s: hopbench keeps a file of its own under this name; choose another", file))
}
