package bus_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hopbench/hopbench/internal/fleet/bus"
	"github.com/hopbench/hopbench/internal/fleet/subject"
	"github.com/hopbench/hopbench/internal/sampling"
	"github.com/hopbench/hopbench/internal/testutil"
)

// wire carries connections to a broker until they are cut.
type wire struct {
	net.Listener
	connections
	works sync.WaitGroup
}

func newWire(t testing.TB, to string) *wire {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.OK(t, err)
	w := &wire{Listener: ln}
	w.works.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			w.add(in, out)
			for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
				w.works.Go(func() {
					_, _ = io.Copy(way[0], way[1])
					_, _ = way[0].Close(), way[1].Close()
				})
			}
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		w.cut()
		w.works.Wait()
	})
	return w
}

// answers has an agent answer numbers with themselves.
func answers(ctx context.Context, link io.ReadWriteCloser) error {
	stop := context.AfterFunc(ctx, func() { _ = link.Close() })
	defer stop()
	for {
		var asked [8]byte
		if _, err := io.ReadFull(link, asked[:]); err != nil {
			return err
		}
		if _, err := link.Write(asked[:]); err != nil {
			return err
		}
	}
}

// Whenever connections of agents are cut, or that of the coordinator, what is said over their
// links goes on: nothing is lost, and nothing comes twice.
func TestKilledConnections(t *testing.T) {
	const agents, numbers = 3, 2000
	for seed := range uint64(testutil.Repeat(1, 8)) {
		random := rand.New(rand.NewPCG(seed, 2))
		y := newYard(t)
		testutil.OK(t, y.bus.Close())
		core := &cutting{Broker: y.broker}
		o := bus.CoordinatorOptions{Fleet: fleet, OnArrival: func(a bus.Arrival) { y.arrived <- a }, OnRefused: func(who subject.Agent, err error) { t.Error(who.Name, err) }}
		o.Hurry()
		c, err := bus.Coordinate(core, o)
		testutil.OK(t, err)
		w := newWire(t, y.broker.Addr().String())
		for i := range agents {
			o := y.options(fmt.Sprint("vm-", i), nil)
			o.Address, o.Serve = w.Addr().String(), answers
			o.OnState = func(bus.State, error) {}
			o.Hurry()
			start(t, o)
		}
		done := make(chan error, agents)
		for range agents {
			link := take(t, y.arrived).Link
			go func() { done <- ask(link, numbers) }()
		}
		for left, cuts := agents, 0; left > 0; {
			select {
			case err := <-done:
				left--
				if err != nil {
					t.Errorf("seed %d, %d cuts: %v", seed, cuts, err)
				}
			case <-time.After(time.Duration(random.IntN(200)) * time.Millisecond):
				if cuts++; random.IntN(4) == 0 {
					core.cut()
				} else {
					w.cut()
				}
			}
		}
		testutil.OK(t, c.Close())
	}
}

// ask writes numbers, some of them ahead, and reads the same. Meanwhile it says that it is
// there, as the ends of real links do: else what was lost last would be missed by nobody.
func ask(link io.ReadWriter, numbers uint64) error {
	const ahead, there = 64, math.MaxUint64
	signs := sampling.Start(time.Second, func() { _, _ = link.Write(binary.BigEndian.AppendUint64(nil, there)) })
	defer signs.End()
	places := make(chan struct{}, ahead)
	wrote := make(chan error, 1)
	go func() {
		for n := range numbers {
			places <- struct{}{}
			if _, err := link.Write(binary.BigEndian.AppendUint64(nil, n)); err != nil {
				wrote <- err
				return
			}
			if n%16 == 0 {
				time.Sleep(time.Millisecond) // so that cuts are within
			}
		}
		wrote <- nil
	}()
	var failed error
	for n := uint64(0); n < numbers; {
		var answer [8]byte
		if _, err := io.ReadFull(link, answer[:]); err != nil {
			failed = fmt.Errorf("answer %d: %w", n, err)
			break
		}
		switch got := binary.BigEndian.Uint64(answer[:]); {
		case got == there:
			continue
		case got != n:
			failed = cmp.Or(failed, fmt.Errorf("answer %d is %d", n, got))
		}
		n++
		<-places
	}
	for failed != nil && len(wrote) == 0 { // whoever waits for a place
		select {
		case <-places:
		case err := <-wrote:
			return errors.Join(failed, err)
		}
	}
	return errors.Join(failed, <-wrote)
}

// Another process of a name is another machine, and the work of the first is over.
func TestAnotherProcess(t *testing.T) {
	y := newYard(t)
	links := make(chan io.ReadWriteCloser, 1)
	stop := start(t, y.options("vm-1", links))
	first := take(t, y.arrived)
	take(t, links)
	testutil.OK(t, stop())
	if _, err := io.ReadAll(first.Link); err == nil {
		t.Error("an agent that has ended is read to a good end")
	}
	start(t, y.options("vm-1", links))
	second := take(t, y.arrived)
	if second.Name != "vm-1" || second.Key == first.Key || second.Link == first.Link {
		t.Errorf("%+v, after %+v", second, first)
	}
}

// Between two sessions of an agent its name is not free: it listens all the while.
func TestNameBetweenSessions(t *testing.T) {
	y := newYard(t)
	user, password := y.broker.Login()
	conn, err := nats.Connect(nats.DefaultURL, nats.InProcessServer(y.broker), nats.UserInfo(user, password))
	testutil.OK(t, err)
	ended := make(chan struct{})
	conn.SetClosedHandler(func(*nats.Conn) { close(ended) })
	defer func() { conn.Close(); <-ended }()
	over, goOn := make(chan struct{}, 1), make(chan struct{})
	o := y.options("vm-1", nil)
	o.Serve = func(_ context.Context, link io.ReadWriteCloser) error {
		_, _ = io.Copy(io.Discard, link)
		_ = link.Close()
		select {
		case over <- struct{}{}:
		default:
		}
		<-goOn
		return nil
	}
	start(t, o)
	a := take(t, y.arrived)
	testutil.OK(t, a.Link.Close())
	take(t, over)
	answer, err := conn.SubscribeSync(conn.NewInbox())
	testutil.OK(t, err)
	testutil.OK(t, conn.PublishRequest(a.Command(), answer.Subject, nil))
	testutil.OK(t, conn.Publish(answer.Subject, []byte("after that")))
	m, err := answer.NextMsg(time.Minute)
	testutil.OK(t, err)
	if m.Header.Get("Status") == "503" {
		t.Error("nobody listens as vm-1, so another could be it")
	}
	close(goOn)
	take(t, y.arrived)
}
