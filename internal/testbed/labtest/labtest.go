// Package labtest lets tests build labs.
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

// Main lets a test binary be what a lab re-executes: its own roles, and the
// agents. Its place is TestMain.
func Main(m *testing.M) {
	if code, handled := lab.Main(os.Args); handled {
		os.Exit(code)
	}
	if len(os.Args) > 1 && os.Args[1] == testbedlab.AgentCommand[0] {
		os.Exit(serveAgent())
	}
	os.Exit(m.Run())
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
