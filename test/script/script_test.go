// Package script_test runs the built binary as a user would: each file of
// testdata is a script of commands with the output, files and exit statuses
// they must have (the language is that of rogpeppe/go-internal/testscript).
package script_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
)

// lab.Check, which the conditions ask, builds a lab with this very program.
func TestMain(m *testing.M) {
	if code, handled := lab.Main(os.Args); handled {
		os.Exit(code)
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil { // scripts wait for most of their time
		panic(err)
	}
	var err error
	if programs, err = os.MkdirTemp("", "hopbench-programs-"); err != nil {
		panic(err)
	}
	status := m.Run()
	if err := os.RemoveAll(programs); err != nil {
		panic(err)
	}
	os.Exit(status)
}

func TestScripts(t *testing.T) {
	binary, tools := build(t), t.TempDir()
	testutil.OK(t, os.WriteFile(filepath.Join(tools, "wait-until"), []byte(waitUntilScript), 0o755))
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", strings.Join([]string{filepath.Dir(binary), tools, os.Getenv("PATH")}, string(os.PathListSeparator)))
			port, err := testutil.FreePort()
			env.Setenv("PORT", strconv.Itoa(int(port)))
			return err
		},
		Condition: have,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"result":       checkResult,
			"wait-port":    waitPort,
			"in-test":      inTest,
			"kill-in-test": killInTest,
			"cut-short":    cutShort,
		},
	})
}

// binaryEnv names the binary to test where there is no Go to build it.
const binaryEnv = "HOPBENCH_TEST_BINARY"

// programs is the folder of what is built, which lasts as long as the tests.
var programs string

// build makes the binary as `make` does, once for all tests, and the slim one beside it.
func build(t *testing.T) string {
	t.Helper()
	if binary := os.Getenv(binaryEnv); binary != "" {
		return binary
	}
	binary, err := built()
	testutil.OK(t, err)
	return binary
}

var built = sync.OnceValues(func() (string, error) {
	binary := filepath.Join(programs, "hopbench")
	for output, tags := range map[string]string{binary: "", binary + "-agent": "agent,nethttpomithttp2"} {
		c := exec.Command("go", "build", "-ldflags=-w", "-tags", tags, "-o", output, "../../cmd/hopbench")
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build: %w\n%s", err, out)
		}
	}
	return binary, nil
})

// have is the condition of `[!lab] skip` and `[!ip] skip`: whether a lab can be
// built here, or a program is on PATH. Where skips are forbidden, what is
// missing is an error.
func have(what string) (bool, error) {
	missing := ""
	if what == "lab" {
		for f := range lab.Check(context.Background()) {
			if f.Required && !f.OK {
				missing = f.Name + ": " + f.Detail
			}
		}
	} else if _, err := exec.LookPath(what); err != nil {
		missing = what + " on PATH"
	}
	if missing != "" && os.Getenv(testutil.NoSkipEnv) == "1" {
		return false, fmt.Errorf("skips are forbidden, and this script needs %s", missing)
	}
	return missing == "", nil
}

// result FILE CHECK…: FILE holds a whole result; each CHECK is KEY=VALUE with
// KEY among trials, failed (for another reason than
// a busy machine), cells, costs, complete, seed, testbed, experiment.
func checkResult(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 1 {
		ts.Fatalf("usage: result FILE [KEY=VALUE…]")
	}
	var r result.Result
	decoder := json.NewDecoder(bytes.NewReader([]byte(ts.ReadFile(args[0]))))
	decoder.DisallowUnknownFields()
	ts.Check(decoder.Decode(&r))
	if decoder.More() {
		ts.Fatalf("%s holds more than one JSON document", args[0])
	}
	if r.Format != result.Format {
		ts.Fatalf("format %q, want %q", r.Format, result.Format)
	}
	failed := 0
	for _, t := range r.Trials {
		if !t.Gate.Passed && !starved(t.Gate) {
			failed++
		}
	}
	values := map[string]any{
		"trials": len(r.Trials), "failed": failed, "cells": len(r.Cells), "costs": len(r.Costs),
		"complete": r.Complete, "seed": r.Seed, "testbed": r.Testbed.Kind, "experiment": r.Experiment.Name,
	}
	for _, check := range args[1:] {
		key, want, _ := strings.Cut(check, "=")
		if got := fmt.Sprint(values[key]); got != want {
			ts.Fatalf("%s of %s is %s, want %s", key, args[0], got, want)
		}
	}
}

// starved says that a trial does not count only because the machine was too busy
// for so short a one, which is no failure of the program.
func starved(g measurement.Gate) bool {
	return !slices.ContainsFunc(g.Findings, func(c measurement.Finding) bool {
		return c.Fatal && !slices.Contains([]string{"cpu", "enough-flow", "enough-packets", "enough-samples"}, c.Name)
	})
}

// waitPort [ADDRESS:]PORT: wait until something listens there, at 127.0.0.1 if no address
// is given.
func waitPort(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: wait-port [ADDRESS:]PORT")
	}
	at := args[0]
	if !strings.Contains(at, ":") {
		at = "127.0.0.1:" + at
	}
	waitUntil(ts, "something listens at "+at, func() bool {
		conn, err := net.Dial("tcp", at)
		if err != nil {
			return false
		}
		conn.Close()
		return true
	})
}
