package cli

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/experiments"
	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/testutil"
)

// The examples of lab reach a destination of the lab that they bring up.
func TestLabExamplesReachTheirLab(t *testing.T) {
	text, err := experiments.Read("routing-appliance")
	testutil.OK(t, err)
	e, err := experiment.Load("routing-appliance.yaml", text)
	testutil.OK(t, err)
	_, paths, err := lab.FromExperiment(e.Scaled())
	testutil.OK(t, err)
	address := regexp.MustCompile(`\d+\.\d+\.\d+\.\d+`)
	for _, c := range []*cobra.Command{labCommand(base.Streams{}), labExecCommand(base.Streams{})} {
		for _, a := range address.FindAllString(c.Example, -1) {
			if !slices.ContainsFunc(paths, func(p lab.Path) bool { return p.Destination.String() == a }) {
				t.Errorf("%s: no path leads to %s, in\n%s", c.Name(), a, c.Example)
			}
		}
	}
}

// One lab that is broken does not hide the others.
func TestLabListGoesOn(t *testing.T) {
	session, err := os.MkdirTemp("/tmp", "hopbench") // short, as the path of a socket must be
	testutil.OK(t, err)
	folder := filepath.Join(session, "hopbench")
	testutil.OK(t, os.Mkdir(folder, 0o700))
	t.Setenv("XDG_RUNTIME_DIR", session)
	var serving sync.WaitGroup
	t.Cleanup(func() {
		serving.Wait()
		if err := os.RemoveAll(session); err != nil {
			t.Error(err)
		}
	})
	for name, serve := range map[string]func(net.Conn){
		"a-hangs-up": func(net.Conn) {},
		"b-stopped":  func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, // until the client gives up
		"c-good": func(c net.Conn) {
			const reply = `{"op":"reply","body":["vm1","vm2"]}`
			if _, err := io.ReadFull(c, make([]byte, len("0000"+`{"op":"nodes"}`))); err == nil {
				_, _ = c.Write([]byte("\x00\x00\x00" + string(rune(len(reply))) + reply)) // the client says what it got
			}
		},
	} {
		ln, err := net.Listen("unix", filepath.Join(folder, name))
		testutil.OK(t, err)
		t.Cleanup(func() { _ = ln.Close() })
		serving.Go(func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				serve(c)
				_ = c.Close() // it may be closed
			}
		})
	}
	status, out, said := command(t, "lab", "list")
	if status != base.ExitFailed {
		t.Errorf("status %d", status)
	}
	if !strings.Contains(out, "c-good: vm1 vm2\n") {
		t.Errorf("the good lab is not in %q, but: %s", out, said)
	}
	for _, want := range []string{"lab a-hangs-up: ", "lab b-stopped does not answer"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in %s", want, said)
		}
	}
}
