// Package labtest lets tests and programs that measure this project build labs.
package labtest

import (
	"context"
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/lab"
	testbedlab "github.com/hopbench/hopbench/internal/testbed/lab"
)

// Main lets a test binary be what a lab re-executes. Its place is TestMain.
func Main(m *testing.M) {
	if code, handled := Role(os.Args); handled {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// Role runs what a lab re-executes its program for, if args, the program's
// os.Args, ask for it: a role of the lab's own, or an agent.
func Role(args []string) (code int, handled bool) {
	if code, handled := lab.Main(args); handled {
		return code, true
	}
	if len(args) > 1 && args[1] == testbedlab.AgentCommand[0] {
		return serveAgent(), true
	}
	return 0, false
}

func serveAgent() int {
	control, err := net.FileConn(os.NewFile(3, "control"))
	if err == nil {
		err = agent.Serve(context.Background(), control, agent.Options{})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
