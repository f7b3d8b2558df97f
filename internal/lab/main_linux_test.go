package lab

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain lets the test binary be what a lab re-executes: its own roles, and
// an agent that echoes lines.
func TestMain(m *testing.M) {
	if code, handled := Main(os.Args); handled {
		os.Exit(code)
	}
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "echo-agent":
			os.Exit(echoAgent())
		case "hold-lab":
			os.Exit(holdLab())
		}
	}
	goleak.VerifyTestMain(m)
}

// echoAgent answers each line on its control socket with the line, until the
// socket closes.
func echoAgent() int {
	conn, err := net.FileConn(os.NewFile(controlDescriptor, "control"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		if _, err := fmt.Fprintln(conn, lines.Text()); err != nil {
			return 1
		}
	}
	return 0
}

func holdLab() int { return 1 }
