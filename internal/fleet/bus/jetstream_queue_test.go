package bus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/fleet/seat"
	"github.com/hopbench/hopbench/internal/fleet/seat/seattest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// seatServer is a NATS server on loopback.
func seatServer(t *testing.T, o server.Options) *server.Server {
	t.Helper()
	o.StoreDir = t.TempDir()
	s := startSeatServer(t, o)
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the NATS server is not ready")
	}
	return s
}

// startSeatServer does not wait until it is ready.
func startSeatServer(t *testing.T, o server.Options) *server.Server {
	t.Helper()
	o.Host, o.JetStream, o.NoSigs, o.NoLog = "127.0.0.1", true, true, true
	s, err := server.NewServer(&o)
	testutil.OK(t, err)
	s.Start()
	return s
}

func endSeatServer(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

// seatConnection is one that comes back soon, until the test ends.
func seatConnection(t *testing.T, at string) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(at, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0))
	testutil.OK(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	testutil.OK(t, err)
	return js
}

// atAServer is a connection to a server of its own.
func atAServer(t *testing.T) jetstream.JetStream {
	t.Helper()
	leftovers(t)
	s := seatServer(t, server.Options{Port: server.RANDOM_PORT})
	t.Cleanup(func() { endSeatServer(s) })
	return seatConnection(t, s.ClientURL())
}

// seatBroker is what the suite needs, with connections to one server and one restarted.
func seatBroker(js jetstream.JetStream, size, replicas int, restart func() error) seattest.Broker {
	return seattest.Broker{
		Open: func(ctx context.Context, run string, lease time.Duration) (seat.Queue, error) {
			return openSeats(ctx, js, SeatOptions{Run: run, Lease: lease, Size: size, Replicas: replicas})
		},
		Redeliver: func(_ context.Context, l seat.Lease) error {
			return js.Conn().Publish(l.(*seatLease).acks, []byte("-NAK"))
		},
		Stray: func(ctx context.Context, run string, text []byte) error {
			_, err := js.Publish(ctx, "hopbench."+run+".seat.stray", text)
			return err
		},
		Restart: func(context.Context) error { return restart() },
		Crowd:   size,
	}
}

// leftovers checks for goroutines once what t made has ended.
func leftovers(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

func TestSeatsKeepTheContract(t *testing.T) {
	leftovers(t)
	s := seatServer(t, server.Options{Port: server.RANDOM_PORT})
	t.Cleanup(func() { endSeatServer(s) })
	port := s.Addr().(*net.TCPAddr).Port
	js := seatConnection(t, s.ClientURL())
	seattest.Run(t, seatBroker(js, testutil.Repeat(1100, 5000), 1, func() error {
		endSeatServer(s)
		s = seatServer(t, server.Options{Port: port})
		return nil
	}))
}

func seatQueue(t *testing.T, js jetstream.JetStream, lease time.Duration, replicas int) *SeatQueue {
	t.Helper()
	q, err := openSeats(t.Context(), js, SeatOptions{Run: "run", Lease: lease, Size: 100, Replicas: replicas})
	testutil.OK(t, err)
	t.Cleanup(func() { testutil.OK(t, q.Close()) })
	return q
}

// What the queue works around. If a server stops doing it, the way around can go.
func TestJetStreamDoesNotFence(t *testing.T) {
	js := atAServer(t)
	ctx := t.Context()
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: "s", Subjects: []string{"s.*"}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.MemoryStorage})
	testutil.OK(t, err)
	consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{Durable: "c", AckPolicy: jetstream.AckExplicitPolicy})
	testutil.OK(t, err)
	_, err = js.Publish(ctx, "s.a", nil)
	testutil.OK(t, err)
	earlier, err := consumer.Next()
	testutil.OK(t, err)
	testutil.OK(t, earlier.Nak())
	later, err := consumer.Next()
	testutil.OK(t, err)
	if earlier.Reply() == later.Reply() {
		t.Fatal("two deliveries have one subject for their acknowledgements")
	}
	// The acknowledgement of the earlier delivery removes the message of the later.
	_, err = js.Conn().RequestWithContext(ctx, earlier.Reply(), []byte("+ACK"))
	testutil.OK(t, err)
	if _, err := stream.GetLastMsgForSubject(ctx, "s.a"); !errors.Is(err, jetstream.ErrMsgNotFound) {
		t.Errorf("an acknowledgement of an earlier delivery is not taken any more: %v", err)
	}
	// Progress is confirmed for a message that is gone.
	_, err = js.Conn().RequestWithContext(ctx, later.Reply(), []byte("+WPI"))
	if err != nil {
		t.Errorf("progress is not confirmed any more for a message that is gone: %v", err)
	}
}

// A server refuses what is not possible, and the queue says what.
func TestSeatsThatCannotBe(t *testing.T) {
	js := atAServer(t)
	for name, o := range map[string]SeatOptions{
		"run":          {Run: "a.b", Lease: time.Second, Size: 1, Replicas: 1},
		"lease":        {Run: "r", Size: 1, Replicas: 1},
		"seats":        {Run: "r", Lease: time.Second, Replicas: 1},
		"replicas":     {Run: "r", Lease: time.Second, Size: 1},
		"make the str": {Run: "r", Lease: time.Second, Size: 1, Replicas: 3}, // there is no cluster
	} {
		if q, err := openSeats(t.Context(), js, o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%+v: %v, %v; nothing of %s", o, q, err, name)
		}
	}
}

// Refused clients ask again, so that too little room would only be slow.
func TestSeatsHaveRoom(t *testing.T) {
	js := atAServer(t)
	q, err := openSeats(t.Context(), js, SeatOptions{Run: "run", Lease: time.Minute, Size: 20_000, Replicas: 1})
	testutil.OK(t, err)
	defer q.Close()
	consumer, err := js.Consumer(t.Context(), q.name, seatConsumer)
	testutil.OK(t, err)
	if c := consumer.CachedInfo().Config; c.MaxWaiting < 20_000 || c.MaxAckPending < 20_000 {
		t.Errorf("room for %d clients and %d leases, where there may be 20000 of each", c.MaxWaiting, c.MaxAckPending)
	}
}

// A seat that is offered while a client stops waiting goes to another at once, and not when a
// lease is over that nobody has.
func TestSeatsOfferedToWhoStopsWaiting(t *testing.T) {
	js := atAServer(t)
	q := seatQueue(t, js, time.Hour, 1)
	for i := range testutil.Repeat(300, 3000) {
		waiting, leave := context.WithCancel(t.Context())
		leased := make(chan seat.Lease, 1)
		go func() {
			l, _ := q.Lease(waiting)
			leased <- l
		}()
		if i%2 == 0 {
			runtime.Gosched()
		} else {
			testutil.OK(t, js.Conn().Flush()) // its request is at the server
		}
		go leave()
		testutil.OK(t, q.Offer(t.Context(), seat.Seat{ID: "a", Generation: uint64(1000 * (i + 1))}))
		l := <-leased
		if l == nil {
			soon, cancel := context.WithTimeout(t.Context(), time.Minute)
			var err error
			l, err = q.Lease(soon)
			cancel()
			if err != nil {
				t.Fatalf("round %d: the seat went to nobody: %v", i, err)
			}
		}
		testutil.OK(t, l.Done(t.Context()))
	}
}

// offering offers something while a stream is asked for: after the server has answered.
type offering struct {
	jetstream.JetStream
	offer func()
}

func (o *offering) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	s, err := o.JetStream.Stream(ctx, name)
	o.offer()
	return s, err
}

// What is offered while somebody looks whether the stream is there is no sign that the stream has
// lost something: leases go on. A stream that has is noticed all the same.
func TestOfferedWhileTheStreamIsLookedFor(t *testing.T) {
	js := atAServer(t)
	slow := &offering{JetStream: js, offer: func() {}}
	q := seatQueue(t, slow, time.Minute, 1)
	testutil.OK(t, q.Offer(t.Context(), seat.Seat{ID: "held", Generation: 1}))
	l, err := q.Lease(t.Context())
	testutil.OK(t, err)
	slow.offer = func() { testutil.OK(t, q.Offer(t.Context(), seat.Seat{ID: "other", Generation: 1})) }
	testutil.OK(t, q.make(t.Context()))
	slow.offer = func() {}
	testutil.OK(t, q.make(t.Context()))
	select {
	case <-q.Emptied():
		t.Error("the queue says that its broker has lost what was in it")
	case <-l.Lost():
		t.Error("the lease is lost")
	default:
	}
	testutil.OK(t, l.Renew(t.Context()))
	testutil.OK(t, js.DeleteStream(t.Context(), q.name))
	testutil.OK(t, q.make(t.Context()))
	<-q.Emptied()
	<-l.Lost()
}

// lagging is a stream at a server that has not come to what another delivers, so many times.
type lagging struct {
	jetstream.Stream
	times *atomic.Int64
}

func (l lagging) GetLastMsgForSubject(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	if l.times.Load() > 0 {
		return nil, jetstream.ErrMsgNotFound
	}
	return l.Stream.GetLastMsgForSubject(ctx, subject)
}

func (l lagging) Info(ctx context.Context, o ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	info, err := l.Stream.Info(ctx, o...)
	if err == nil && l.times.Add(-1) >= 0 {
		info.State.LastSeq = 0
	}
	return info, err
}

// A seat that is delivered before the server that leads the stream knows of it is leased all
// the same: it is not left to nobody for as long as a lease.
func TestDeliveredBeforeTheStreamHasIt(t *testing.T) {
	js := atAServer(t)
	q := seatQueue(t, js, time.Minute, 1)
	testutil.OK(t, q.Offer(t.Context(), seat.Seat{ID: "new", Generation: 1}))
	late := lagging{q.stream, new(atomic.Int64)}
	late.times.Store(2)
	q.mu.Lock()
	q.stream = late
	q.mu.Unlock()
	l, err := q.Lease(t.Context())
	testutil.OK(t, err)
	if g := l.Seat().Generation; g != 1 || late.times.Load() > 0 {
		t.Errorf("generation %d is leased, where the first one was delivered", g)
	}
	testutil.OK(t, l.Done(t.Context()))
}

// writing has somebody else write the same at the moment of the first so many publications.
type writing struct {
	jetstream.JetStream
	times *atomic.Int64
}

func (w writing) Publish(ctx context.Context, subject string, data []byte, o ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	if w.times.Add(-1) >= 0 {
		return nil, fmt.Errorf("nats: %w", &jetstream.APIError{Code: 409, ErrorCode: duplicateInProcess, Description: "duplicate message id is in process"})
	}
	return w.JetStream.Publish(ctx, subject, data, o...)
}

// A generation that two write at the same moment, as its ledger and whoever finds that a lease
// ran out, is there for both.
func TestTwoWriteAGeneration(t *testing.T) {
	js := atAServer(t)
	other := writing{js, new(atomic.Int64)}
	q := seatQueue(t, other, time.Minute, 1)
	other.times.Store(2)
	testutil.OK(t, q.Offer(t.Context(), seat.Seat{ID: "a", Generation: 1}))
	l, err := q.Lease(t.Context())
	testutil.OK(t, err)
	other.times.Store(1)
	if err := l.Return(t.Context()); !errors.Is(err, seat.ErrLost) {
		t.Errorf("a lease whose next generation somebody else writes is returned: %v", err)
	}
}

// A queue that is removed takes its stream along.
func TestRemoveSeats(t *testing.T) {
	js := atAServer(t)
	q := seatQueue(t, js, time.Minute, 1)
	testutil.OK(t, q.Offer(t.Context(), seat.Seat{ID: "a", Generation: 1}))
	testutil.OK(t, q.Remove(t.Context()))
	testutil.OK(t, q.Remove(t.Context()))
	if _, err := js.Stream(t.Context(), q.name); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("the stream is still there: %v", err)
	}
}
