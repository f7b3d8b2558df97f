package main

import "github.com/hopbench/hopbench/internal/testbed/labtest"

// kill kills the one process of the lab whose command line matches a pattern.
func kill(pattern string) error { return labtest.Kill(pattern) }
