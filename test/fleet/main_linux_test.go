package fleet

import (
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/cli"
	"github.com/hopbench/hopbench/internal/fleet/broker/brokertest"
	"github.com/hopbench/hopbench/internal/testbed/labtest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// The roles of this program in nodes: hopbench, what passes on a machine's connection, and a
// server of a cluster.
const (
	hopbenchRole = "hopbench"
	relayRole    = "relay"
	natsRole     = "nats"
	natsReady    = "takes connections"
)

func TestMain(m *testing.M) {
	if code, handled := labtest.Role(os.Args); handled {
		os.Exit(code)
	}
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case hopbenchRole:
			os.Exit(cli.Main(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
		case relayRole:
			fmt.Fprintln(os.Stderr, relay(os.Args[2], os.Args[3])) // it returns only if it fails
			os.Exit(1)
		case natsRole:
			s, err := brokertest.Start(os.Args[2])
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			for !s.ReadyForConnections(time.Minute) {
			}
			fmt.Println(natsReady)
			s.WaitForShutdown()
			return
		}
	}
	testutil.Enter() // disks are mounted
	goleak.VerifyTestMain(m)
}

// relay passes connections on until it is killed, which cuts them.
func relay(at, to string) error {
	listener, err := net.Listen("tcp", at)
	for err == nil {
		var near net.Conn
		if near, err = listener.Accept(); err == nil {
			go pass(near, to)
		}
	}
	return err
}

func pass(near net.Conn, to string) {
	defer near.Close()
	far, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	var ways sync.WaitGroup
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		ways.Go(func() {
			_, _ = io.Copy(way[0], way[1]) // one end is gone
			_, _ = near.Close(), far.Close()
		})
	}
	ways.Wait()
}
