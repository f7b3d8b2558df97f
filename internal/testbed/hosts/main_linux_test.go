package hosts_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/testbed/labtest"
)

// agentOnInput makes this program an agent with its control connection on standard input.
const agentOnInput = "agent-on-input"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == agentOnInput {
		if err := serveInput(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if code, handled := labtest.Role(os.Args); handled {
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

// serveInput is an agent as it is at the other end of a network.
func serveInput() error {
	control, err := net.FileConn(os.Stdin)
	if err != nil {
		return err
	}
	return agent.Serve(context.Background(), control, agent.Options{Lease: time.Minute})
}
