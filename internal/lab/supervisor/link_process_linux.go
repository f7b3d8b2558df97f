package supervisor

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/lab/message"
)

// linkProcess is the process of a link, of which one asks at a time.
type linkProcess struct {
	conn     *message.Conn
	patience time.Duration        // how long an answer is waited for
	answers  chan message.Message // to the last question; has room for one
	ended    chan struct{}        // closed once there will be no more
	why      error                // once ended

	mu    sync.Mutex
	asked uint64 // number of the last question
}

// newLinkProcess reads what a process answers until it ends. Somebody reads at any time: an
// answer that nobody waits for any more is taken as a whole, and holds up no later one.
func newLinkProcess(conn *message.Conn) *linkProcess {
	p := &linkProcess{conn: conn, patience: 10 * time.Second, answers: make(chan message.Message, 1), ended: make(chan struct{})}
	go p.read()
	return p
}

func (p *linkProcess) read() {
	defer close(p.ended)
	for {
		m, files, err := p.conn.Receive()
		message.CloseAll(files)
		if err != nil {
			p.why = err
			return
		}
		p.mu.Lock()
		if m.ID == p.asked { // others come too late for who asked for them
			select {
			case p.answers <- m:
			default: // it says so twice
			}
		}
		p.mu.Unlock()
	}
}

// ask sends a question and returns its answer.
func (p *linkProcess) ask(m message.Message) (message.Message, error) {
	p.mu.Lock()
	p.asked++
	m.ID = p.asked
	select {
	case <-p.answers: // it came when nobody waited any more
	default:
	}
	p.mu.Unlock()
	if err := p.conn.Forward(m); err != nil {
		return message.Message{}, err
	}
	select {
	case answer := <-p.answers:
		if answer.Error != "" {
			return message.Message{}, errors.New(answer.Error)
		}
		return answer, nil
	case <-p.ended:
		return message.Message{}, p.why
	case <-time.After(p.patience):
		return message.Message{}, fmt.Errorf("its process did not answer in %v: %w", p.patience, os.ErrDeadlineExceeded)
	}
}
