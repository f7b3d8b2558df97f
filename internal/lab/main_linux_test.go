package lab

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/linkem"
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
		case "talk":
			os.Exit(talk(os.Args[2:]))
		case "hold-lab":
			os.Exit(holdLab())
		case "traffic":
			os.Exit(traffic(os.Args[2:]))
		case "intrude":
			os.Exit(intrude(os.Args[2:]))
		}
	}
	goleak.VerifyTestMain(m)
}

// echoAgent answers each line on its control socket with the line, until the
// socket closes.
func echoAgent() int {
	conn, err := net.FileConn(os.NewFile(3, "control"))
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

// holdLab keeps a lab up until its standard input ends or a process of the lab
// does, and prints what happens.
func holdLab() int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // any end is the end
		cancel()
	}()
	delay := linkem.Direction{Delay: time.Millisecond}
	built := chain(1, nil)
	built.Links[0].Emulation = &linkem.Config{Forward: delay, Backward: delay}
	l, err := Start(ctx, built, Options{NodeCommand: []string{"echo-agent"}})
	if err != nil {
		fmt.Println("failed:", err)
		return 0
	}
	fmt.Println("ready")
	select {
	case <-l.Done():
		fmt.Println("ended:", l.Err())
	case <-ctx.Done():
	}
	if err := l.Close(); err != nil {
		fmt.Println("close:", err)
		return 1
	}
	return 0
}
