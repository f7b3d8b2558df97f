package servicebus

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/fleet/messages"
	"github.com/hopbench/hopbench/internal/fleet/seat"
	"github.com/hopbench/hopbench/internal/fleet/seat/seattest"
	"github.com/hopbench/hopbench/internal/fleet/servicebus/servicebustest"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, servicebustest.Renewers) }

// root is the folder of the module.
const root = "../../.."

// Not Service Bus itself, and not its emulator: what is shown is that the driver keeps the
// contract where messages are locked for a time, and that Microsoft's client understands the
// stand-in.
func TestBrokersServiceBus(t *testing.T) {
	// As long as Azure's own default, in which a busy machine renews 5000 of them.
	broker, connection := servicebustest.StandIn(t, root, time.Minute)
	var last atomic.Pointer[link]
	seattest.Run(t, seattest.Broker{
		Open: func(ctx context.Context, run string, lease time.Duration) (seat.Queue, error) {
			return open(ctx, Options{ConnectionString: testutil.Always(connection), Queue: run, Run: run, Lease: lease}, last.Store)
		},
		Redeliver: func(ctx context.Context, _ seat.Lease) error {
			l := last.Load()
			l.mu.Lock()
			defer l.mu.Unlock()
			for d := range l.held {
				if err := l.receiver.AbandonMessage(ctx, d.msg, nil); err != nil {
					return err
				}
			}
			return nil
		},
		Stray: func(ctx context.Context, run string, text []byte) error {
			client, err := azservicebus.NewClientFromConnectionString(connection, nil)
			if err != nil {
				return err
			}
			defer client.Close(ctx)
			sender, err := client.NewSender(run, nil)
			if err != nil {
				return err
			}
			return sender.SendMessage(ctx, &azservicebus.Message{Body: text}, nil)
		},
		Restart: func(ctx context.Context) error {
			broker.Kill()
			return broker.Start(ctx)
		},
		Crowd: 5000,
	})
	t.Run("what waits is seen and stays", func(t *testing.T) {
		of := func(run string) Options {
			return Options{ConnectionString: testutil.Always(connection), Queue: "waiting", Run: run, Lease: time.Minute}
		}
		seattest.WaitingIsSeen(t, func(run string) (seat.Queue, error) { return Open(t.Context(), of(run)) },
			func() (map[string]int, bool, error) { return Waiting(t.Context(), of("check")) })
	})
	if t.Failed() {
		t.Logf("the stand-in said:\n%s", broker.Said())
	}
}

// Locks outlast a lease that is renewed, although each is shorter; and one that the broker
// gave up ends its lease.
func TestBrokersServiceBusLocks(t *testing.T) {
	const lock = 9 * time.Second
	broker, connection := servicebustest.StandIn(t, root, lock)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var last atomic.Pointer[link]
	q, err := open(ctx, Options{ConnectionString: testutil.Always(connection), Queue: "locks", Run: "locks", Lease: time.Hour}, last.Store)
	testutil.OK(t, err)
	defer q.Close()
	testutil.OK(t, q.Offer(ctx, seat.Seat{ID: "a", Generation: 1}))
	held, err := q.Lease(ctx)
	testutil.OK(t, err)
	// Longer than the lock: nobody else gets it meanwhile.
	short, stop := context.WithTimeout(ctx, lock+lock/2)
	defer stop()
	if other, err := q.Lease(short); err == nil {
		t.Fatalf("%v is leased to another while its lock is renewed", other.Seat())
	}
	testutil.OK(t, held.Renew(ctx))
	// The broker forgets the lock.
	broker.Kill()
	testutil.OK(t, broker.Start(ctx))
	select {
	case <-held.Lost():
	case <-ctx.Done():
		t.Fatal("the broker has forgotten the lock, and the lease goes on")
	}
	select {
	case <-q.Emptied():
	case <-ctx.Done():
		t.Fatal("nobody is told that the broker has forgotten what it had")
	}
}

// A lock is renewed in time also where Azure's clock is far ahead of this machine's.
func TestBrokersServiceBusClockAhead(t *testing.T) {
	const lock = 6 * time.Second
	_, connection := servicebustest.StandIn(t, root, lock)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	q, err := Open(ctx, Options{ConnectionString: testutil.Always(connection), Queue: "ahead", Run: "ahead", Lease: time.Hour})
	testutil.OK(t, err)
	defer q.Close()
	testutil.OK(t, q.Offer(ctx, seat.Seat{ID: "a", Generation: 1}))
	held, err := q.Lease(ctx)
	testutil.OK(t, err)
	long, stop := context.WithTimeout(ctx, lock+lock/2)
	defer stop()
	if other, err := q.Lease(long); err == nil {
		t.Fatalf("%v is leased to another while its lock is to be renewed", other.Seat())
	}
	testutil.OK(t, held.Renew(ctx))
	testutil.OK(t, held.Done(ctx))
}

// Links either way that Service Bus ends since it is busy are made anew.
func TestBrokersServiceBusBusy(t *testing.T) {
	_, connection := servicebustest.StandIn(t, root, time.Minute)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := dial(ctx, Options{ConnectionString: testutil.Always(connection), Queue: "busy", Lease: time.Minute}, func(messages.Delivery) {})
	testutil.OK(t, err)
	defer func() { testutil.OK(t, l.Close()) }()
	for err = errors.New("not sent"); err != nil && ctx.Err() == nil; {
		brief, stop := context.WithTimeout(ctx, time.Second)
		err = l.Send(brief, []byte("text"))
		stop()
	}
	testutil.OK(t, err)
	testutil.OK(t, l.Ask(1))
	d, err := l.Receive(ctx)
	testutil.OK(t, err)
	testutil.OK(t, d.Accept(ctx))
}

// Links that are closed while they connect anew, with calls under way that are given up at any
// moment, end these and leave nothing (see TestMain).
func TestBrokersServiceBusClosedWhileItConnects(t *testing.T) {
	broker, connection := servicebustest.StandIn(t, root, time.Minute)
	const links, senders = 40, 10
	random := rand.New(rand.NewPCG(1, 2))
	var calls, closes sync.WaitGroup
	var all []*link
	for range links {
		l, err := dial(t.Context(), Options{ConnectionString: testutil.Always(connection), Queue: "closed", Run: "closed", Lease: time.Minute}, func(messages.Delivery) {})
		testutil.OK(t, err)
		testutil.OK(t, l.Ask(1000))
		for range senders {
			least := time.Duration(random.IntN(20)) * time.Millisecond
			calls.Go(func() {
				for within := least; l.Alive(); within += time.Millisecond {
					ctx, cancel := context.WithTimeout(t.Context(), within)
					_ = l.Send(ctx, []byte("text")) // fails while the broker is away, or takes longer
					cancel()
				}
			})
		}
		calls.Go(func() {
			for l.Alive() {
				if d, err := l.Receive(t.Context()); err == nil {
					_ = d.Accept(t.Context()) // likewise
				}
			}
		})
		all = append(all, l)
	}
	broker.Kill()
	testutil.OK(t, broker.Start(t.Context()))
	for _, l := range all {
		after := time.Duration(random.IntN(1000)) * time.Millisecond
		closes.Go(func() {
			time.Sleep(after)
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			if err := l.Send(t.Context(), nil); !errors.Is(err, errClosed) {
				t.Errorf("a closed link sends: %v", err)
			}
		})
	}
	closes.Wait()
	calls.Wait()
}

func TestQueuesThatCannotBe(t *testing.T) {
	good := "Endpoint=sb://localhost:1;SharedAccessKeyName=all;SharedAccessKey=secret;UseDevelopmentEmulator=true"
	for name, o := range map[string]Options{
		"run":        {Run: "a.b", ConnectionString: testutil.Always(good), Queue: "q", Lease: time.Second},
		"lease":      {Run: "r", ConnectionString: testutil.Always(good), Queue: "q"},
		"name":       {Run: "r", ConnectionString: testutil.Always(good), Lease: time.Second},
		"connection": {Run: "r", ConnectionString: testutil.Always("SharedAccessKey=secret"), Queue: "q", Lease: time.Second},
	} {
		q, err := Open(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, %v", name, q, err)
		}
	}
}

// What is wrong with a connection is what the last retry says, if there is time for it.
func TestRetriesEndInTime(t *testing.T) {
	const most = 1.3 // of a pause, by azservicebus
	total := time.Duration(0)
	for retry := range retries.MaxRetries {
		pause := time.Duration(most * float64(retries.RetryDelay) * float64(int(2)<<retry-1))
		total += min(pause, retries.MaxRetryDelay)
	}
	if total >= dialTime {
		t.Errorf("retries go on for %v, and connecting has %v", total, dialTime)
	}
}
