package supervisor

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/lab/message"
	"github.com/hopbench/hopbench/internal/testutil"
)

// linkPair is a process of a link as it is asked, and its own end.
func linkPair(t *testing.T) (*linkProcess, *message.Conn) {
	t.Helper()
	mine, its, err := message.SocketPair("control")
	testutil.OK(t, err)
	conn, err := message.Open(mine)
	testutil.OK(t, err)
	link, err := message.Open(its)
	testutil.OK(t, err)
	p := newLinkProcess(conn)
	t.Cleanup(func() {
		link.Close()
		<-p.ended
		conn.Close()
	})
	return p, link
}

// own fails unless an answer is that to the question that was asked.
func own(t *testing.T, answer message.Message, err error) {
	t.Helper()
	testutil.OK(t, err)
	if own, err := message.Body[bool](answer); err != nil || !own {
		t.Errorf("the answer to an earlier question is taken for that to a later one (%v)", err)
	}
}

// The answer to a question that was given up comes late, and is not taken for
// that to a later one.
func TestLateAnswer(t *testing.T) {
	p, link := linkPair(t)
	answered := make(chan error, 1)
	go func() {
		defer close(answered)
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
	for range 3 {
		answer, err := p.ask(message.Message{Verb: message.Count, ID: 7})
		own(t, answer, err)
	}
	testutil.OK(t, <-answered)
}

// An answer of which a part came in time is taken as a whole when the rest comes, however long
// it is: what follows is read as what it is.
func TestAnswerInTwoParts(t *testing.T) {
	p, link := linkPair(t)
	patience := p.patience
	givenUp, answered := make(chan struct{}), make(chan error, 1)
	go func() {
		answered <- func() error {
			m, _, err := link.Receive()
			if err != nil {
				return err
			}
			late, err := message.New(message.Reply, m.ID, strings.Repeat("late", 1<<20))
			if err != nil {
				return err
			}
			text, err := json.Marshal(late)
			if err != nil {
				return err
			}
			frame := append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
			if _, err := link.Write(frame[:10]); err != nil {
				return err
			}
			<-givenUp
			if _, err := link.Write(frame[10:]); err != nil { // nobody asks meanwhile
				return err
			}
			answered <- nil
			if m, _, err = link.Receive(); err != nil {
				return err
			}
			return link.Answer(m.ID, true, nil)
		}()
	}()
	p.patience = time.Millisecond
	if _, err := p.ask(message.Message{Verb: message.Alerts}); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	close(givenUp)
	testutil.OK(t, <-answered)
	p.patience = patience
	answer, err := p.ask(message.Message{Verb: message.Count})
	own(t, answer, err)
	testutil.OK(t, <-answered)
}

// Who asks a process that ends hears so at once.
func TestProcessEndsBeforeItAnswers(t *testing.T) {
	p, link := linkPair(t)
	go func() {
		_, _, _ = link.Receive()
		link.Close()
	}()
	if _, err := p.ask(message.Message{Verb: message.Count}); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}
