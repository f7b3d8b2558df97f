package image

import (
	"bufio"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// Modules is what modules.dep says: for each module's file all those that it
// needs, the ones to load last first (modules.dep(5)). Paths are relative to
// the directory of the kernel's modules.
type Modules map[string][]string

// The bounds of what is read: Debian's whole kernel has some 4000 modules, and
// the longest line has 100 files.
const (
	maxModules      = 50_000
	maxDependencies = 1_000
	maxLine         = 256 << 10
)

// ReadModules reads modules.dep.
func ReadModules(r io.Reader) (Modules, error) {
	modules := make(Modules)
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for number := 1; lines.Scan(); number++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		file, needs, found := strings.Cut(text, ":")
		fields := strings.Fields(needs)
		switch {
		case !found:
			return nil, fmt.Errorf("modules.dep line %d: no colon in %.80q", number, text)
		case len(fields) > maxDependencies || len(modules) >= maxModules:
			return nil, fmt.Errorf("modules.dep line %d: more than %d modules, or one that needs more than %d", number, maxModules, maxDependencies)
		}
		for _, f := range append([]string{file}, fields...) {
			// What is copied stays below the directory.
			if f == "" || path.IsAbs(f) || path.Clean(f) != f || strings.HasPrefix(f, "../") || f == ".." || strings.ContainsAny(f, " \t") {
				return nil, fmt.Errorf("modules.dep line %d: %.80q is not the path of a module", number, f)
			}
		}
		if _, again := modules[file]; again {
			return nil, fmt.Errorf("modules.dep line %d: %s is there twice", number, file)
		}
		modules[file] = fields
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read modules.dep: %w", err)
	}
	return modules, nil
}

// Needed are the modules that wanted says yes to and all that they need, in an
// order in which each comes after those that it needs.
func (m Modules) Needed(wanted func(file string) bool) ([]string, error) {
	var files []string
	for file := range m {
		if wanted(file) {
			files = append(files, file)
		}
	}
	slices.Sort(files)
	var order []string
	const visiting, done = 1, 2
	state := make(map[string]int)
	var visit func(file string) error
	visit = func(file string) error {
		switch state[file] {
		case done:
			return nil
		case visiting:
			return fmt.Errorf("module %s needs itself", file)
		}
		needs, known := m[file]
		if !known {
			return fmt.Errorf("module %s is needed and not in modules.dep", file)
		}
		state[file] = visiting
		for _, other := range slices.Backward(needs) {
			if err := visit(other); err != nil {
				return err
			}
		}
		state[file] = done
		order = append(order, file)
		return nil
	}
	for _, file := range files {
		if err := visit(file); err != nil {
			return nil, err
		}
	}
	return order, nil
}
