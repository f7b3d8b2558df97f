//go:build !agent

// Command hopbench measures what a hop costs.
package main

import (
	"os"

	"github.com/hopbench/hopbench/internal/cli"
	"github.com/hopbench/hopbench/internal/lab"
)

func main() {
	// A lab's own processes are this binary under other names.
	if code, handled := lab.Main(os.Args); handled {
		os.Exit(code)
	}
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
