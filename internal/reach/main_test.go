package reach

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
)

// TestMain lets this program be what ssh copies and starts, and a coordinator that
// somebody kills.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "agent":
		if err := actAsAgent(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case os.Getenv(coordinatorEnv) != "":
		actAsCoordinator()
	}
	goleak.VerifyTestMain(m)
}

// coordinatorEnv has what a coordinator dials.
const coordinatorEnv = "HOPBENCH_TEST_COORDINATOR"

// actAsAgent is what `hopbench agent --stdio --remove-self` does.
func actAsAgent(flags []string) error {
	if !slices.Equal(flags, []string{"--stdio", "--remove-self"}) {
		return fmt.Errorf("an agent with the flags %q", flags)
	}
	if err := RemoveSelf(); err != nil {
		return err
	}
	conn, err := Stdio()
	if err != nil {
		return err
	}
	return agent.Serve(context.Background(), conn, agent.Options{Lease: time.Minute, Claim: ClaimHost})
}

// actAsCoordinator dials, has the agent send itself load, and holds on until it is told
// to end or is killed.
func actAsCoordinator() {
	port, err := strconv.ParseUint(os.Getenv(coordinatorEnv), 10, 16)
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		err = coordinate(ctx, uint16(port))
	}
	fmt.Println("ended:", err)
	os.Exit(0)
}

func coordinate(ctx context.Context, port uint16) error {
	c, err := Dial(ctx, sshEnd(port), "")
	if err != nil {
		return err
	}
	fmt.Println("reached")
	client, err := agent.Connect(ctx, c)
	if err != nil {
		return err
	}
	at := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), 5201)
	if _, err := client.Listen(ctx, at, agent.Serving{Token: testToken}); err != nil {
		return errors.Join(err, client.Close())
	}
	_, err = client.Run(ctx, probe.Request{Target: at, Token: testToken, Spec: measurement.Spec{Kind: measurement.TCP, Flows: 1, Duration: 600, PacingBitsPerSecond: 100e6}},
		func(measurement.Progress) { fmt.Println("measures") })
	return errors.Join(err, client.Close())
}

func sshEnd(port uint16) inventory.Endpoint {
	return inventory.Endpoint{Name: "vm2", Reach: inventory.Reach{Scheme: inventory.ReachSSH, Host: "127.0.0.1", Port: port}}
}
