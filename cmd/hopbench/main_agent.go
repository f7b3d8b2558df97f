//go:build agent

// Command hopbench is here the slim program of machines that are only measured.
package main

import (
	"os"

	"github.com/hopbench/hopbench/internal/cli/endpoint"
)

func main() { os.Exit(endpoint.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
