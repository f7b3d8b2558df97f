package supervisor

import (
	"testing"

	"github.com/hopbench/hopbench/internal/lab/message"
	"github.com/hopbench/hopbench/internal/testutil"
)

// The answer to a request that was given up comes late, and is not taken for
// that to a later one.
func TestLateAnswer(t *testing.T) {
	mine, its, err := message.SocketPair("control")
	testutil.OK(t, err)
	conn, err := message.Open(mine)
	testutil.OK(t, err)
	defer conn.Close()
	link, err := message.Open(its)
	testutil.OK(t, err)
	answered := make(chan error, 1)
	go func() {
		defer close(answered)
		defer link.Close()
		var late []uint64
		for range 3 {
			m, _, err := link.Receive()
			if err != nil {
				answered <- err
				return
			}
			for _, id := range append(late, m.ID) {
				if err := link.Answer(id, id == m.ID, nil); err != nil {
					answered <- err
					return
				}
			}
			late = append(late, m.ID)
		}
	}()
	var s supervisor
	for range 3 {
		answer, err := s.ask(conn, message.Message{Verb: message.Count, ID: 7})
		testutil.OK(t, err)
		if own, err := message.Body[bool](answer); err != nil || !own {
			t.Errorf("the answer to an earlier request is taken for that to request %d (%v)", s.asked, err)
		}
	}
	testutil.OK(t, <-answered)
}
