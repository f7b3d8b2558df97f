package agent

import (
	"bytes"
	"io"
	"net"
	"testing"

	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/testutil"
)

// A connection that is closed ends between frames where the agent reads, and at last also
// where it does not.
func TestCloseFinishesAFrame(t *testing.T) {
	for name, reads := range map[string]bool{"an agent that reads": true, "one that does not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			near, far := net.Pipe()
			c := NewClient(near)
			wrote, closed := make(chan error, 1), make(chan error, 1)
			go func() { wrote <- c.write(protocol.TypeAgentClock, stamps{Sent: 1}) }()
			begun := make([]byte, 1)
			_, err := io.ReadFull(far, begun)
			testutil.OK(t, err)
			go func() { closed <- c.Close() }()
			if reads {
				_, _, err := protocol.ReadFrame(io.MultiReader(bytes.NewReader(begun), far), maxRequest)
				testutil.OK(t, err)
			}
			testutil.OK(t, <-closed)
			if err := <-wrote; (err == nil) != reads {
				t.Errorf("writing ended with %v", err)
			}
			testutil.OK(t, far.Close())
		})
	}
}
