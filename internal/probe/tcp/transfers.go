package tcp

import (
	"fmt"
	"sync"

	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/thread"
)

// transfers are those of all flows of the client. A flow that has a thread waits on it for the
// start: to make a thread, or to have the Go scheduler wake one, takes the longer the more
// flows transfer already.
type transfers struct {
	t     *test
	gate  *thread.Gate
	ended sync.WaitGroup
	// canceled is set before the gate is open.
	canceled bool

	once  sync.Once
	first error // the others' are what interrupting them caused
}

// ready has flows wait for run; end is to be called in any case.
func (t *test) ready() (*transfers, error) {
	gate, err := thread.NewGate()
	if err != nil {
		return nil, err
	}
	x := &transfers{t: t, gate: gate}
	var coming sync.WaitGroup
	for i, f := range t.flows {
		if f.Conn.Attached() {
			continue
		}
		coming.Add(1)
		x.ended.Go(func() {
			defer sockets.Lock()()
			defer takeTurns(t.req.Spec)()
			coming.Done()
			if gate.Wait(); !x.canceled {
				x.transfer(i)
			}
		})
	}
	coming.Wait()
	return x, nil
}

// run runs every flow, and waits for all. The first flow that fails ends the others.
func (x *transfers) run() error {
	x.gate.Open()
	for i, f := range x.t.flows {
		if f.Conn.Attached() {
			x.ended.Go(func() { x.transfer(i) })
		}
	}
	x.ended.Wait()
	return x.first
}

// end ends what waits, unless it ran.
func (x *transfers) end() error {
	x.canceled = true
	x.gate.Open()
	x.ended.Wait()
	return x.gate.Close()
}

func (x *transfers) transfer(i int) {
	err := x.t.flows[i].transfer(&x.t.req)
	if err == nil {
		return
	}
	x.once.Do(func() {
		x.first = session.Wrap(fmt.Sprintf("flow %d of %d", i+1, len(x.t.flows)), err)
		for _, other := range x.t.flows {
			other.Conn.Interrupt()
		}
	})
}
