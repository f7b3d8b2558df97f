// Command crosscheck type-checks all packages of this module for systems, this one or not,
// written GOOS/GOARCH[/GOARM]. That takes seconds where compiling all that they import
// takes minutes, and misses what only a linker finds: make dist builds for all systems.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	failed := false
	for _, platform := range os.Args[1:] {
		wrong, err := check(platform)
		if err != nil {
			wrong = append(wrong, err.Error())
		}
		fmt.Printf("type-checked for %s: %d errors\n", platform, len(wrong))
		for _, w := range wrong {
			failed = true
			fmt.Println(w)
		}
	}
	if failed {
		os.Exit(1)
	}
}

// check returns what is wrong in this module's packages.
func check(platform string) ([]string, error) {
	name := strings.Split(platform, "/")
	if len(name) < 2 || len(name) > 3 {
		return nil, fmt.Errorf("platform %q: write GOOS/GOARCH or GOOS/GOARCH/GOARM", platform)
	}
	env := append(os.Environ(), "CGO_ENABLED=0", "GOOS="+name[0], "GOARCH="+name[1])
	if len(name) == 3 {
		env = append(env, "GOARM="+name[2])
	}
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	found, err := packages.Load(&packages.Config{
		// Without the dependencies' sources their compiled forms are asked for, and made.
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedDeps | packages.NeedTypes | packages.NeedTypesSizes | packages.NeedSyntax | packages.NeedModule,
		Env: env,
		ParseFile: func(set *token.FileSet, file string, source []byte) (*ast.File, error) {
			f, err := parser.ParseFile(set, file, source, parser.SkipObjectResolution)
			if f != nil && !strings.HasPrefix(file, root+string(filepath.Separator)) {
				forgetBodies(f)
			}
			return f, err
		},
	}, "./...")
	if err != nil {
		return nil, fmt.Errorf("load the packages for %s: %w", platform, err)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("there are no packages in %s", root)
	}
	var wrong []string
	for _, p := range found {
		for _, e := range p.Errors {
			wrong = append(wrong, e.Error())
		}
	}
	return wrong, nil
}

// forgetBodies leaves of a dependency what others see of it.
func forgetBodies(f *ast.File) {
	for _, d := range f.Decls {
		if function, ok := d.(*ast.FuncDecl); ok {
			function.Body = nil
		}
	}
}
