package amqp

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/go-amqp"
	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/fleet/amqp/amqptest"
	"github.com/hopbench/hopbench/internal/fleet/seat"
	"github.com/hopbench/hopbench/internal/fleet/seat/seattest"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// keepsTheContract runs the suite against the broker at a URL. The broker calls the queue of
// a run what address says.
func keepsTheContract(t *testing.T, broker *amqptest.Broker, url string, address func(run string) string, crowd int) {
	var last atomic.Pointer[link]
	seattest.Run(t, seattest.Broker{
		Open: func(ctx context.Context, run string, lease time.Duration) (seat.Queue, error) {
			return open(ctx, Options{URL: testutil.Always(url), Address: address(run), Run: run, Lease: lease}, last.Store)
		},
		Redeliver: func(context.Context, seat.Lease) error { return last.Load().conn.Close() },
		Stray: func(ctx context.Context, run string, text []byte) error {
			conn, err := amqp.Dial(ctx, url, nil)
			if err != nil {
				return err
			}
			defer conn.Close()
			session, err := conn.NewSession(ctx, nil)
			if err != nil {
				return err
			}
			sender, err := session.NewSender(ctx, address(run), &amqp.SenderOptions{TargetCapabilities: []string{"queue"}})
			if err != nil {
				return err
			}
			return sender.Send(ctx, amqp.NewMessage(text), nil)
		},
		Restart: func(ctx context.Context) error {
			broker.Kill()
			return broker.Start(ctx)
		},
		Crowd: crowd,
	})
	if t.Failed() {
		t.Logf("the broker said:\n%s", broker.Said())
	}
}

func TestBrokersRabbitMQ(t *testing.T) {
	broker, url := amqptest.RabbitMQ(t)
	keepsTheContract(t, broker, url, func(run string) string { return "/queue/" + run }, 5000)
	t.Run("what waits is seen and stays", func(t *testing.T) { waitingIsSeen(t, url, "/queue/waiting") })
}

// waitingIsSeen looks into a queue with seats of one run.
func waitingIsSeen(t *testing.T, url, address string) {
	of := func(run string) Options {
		return Options{URL: testutil.Always(url), Address: address, Run: run, Lease: time.Minute}
	}
	seattest.WaitingIsSeen(t, func(run string) (seat.Queue, error) { return Open(t.Context(), of(run)) },
		func() (map[string]int, bool, error) { return Waiting(t.Context(), of("check")) })
}

func TestBrokersArtemis(t *testing.T) {
	broker, url := amqptest.Artemis(t, "testdata/pom.xml")
	keepsTheContract(t, broker, url, func(run string) string { return run }, 5000)
	t.Run("what waits is seen and stays", func(t *testing.T) { waitingIsSeen(t, url, "waiting") })
	t.Run("a link that ends before its connection", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		var last atomic.Pointer[link]
		q, err := open(ctx, Options{URL: testutil.Always(url), Address: "detached", Run: "detached", Lease: time.Minute}, last.Store)
		testutil.OK(t, err)
		defer q.Close()
		testutil.OK(t, last.Load().sender.Close(ctx))
		for err = errors.New("not offered"); err != nil && ctx.Err() == nil; {
			err = q.Offer(ctx, seat.Seat{ID: "a", Generation: 1})
		}
		testutil.OK(t, err)
		l, err := q.Lease(ctx)
		testutil.OK(t, err)
		testutil.OK(t, l.Done(ctx))
	})
}

func TestQueuesThatCannotBe(t *testing.T) {
	for name, o := range map[string]Options{
		"run":     {Run: "a.b", URL: testutil.Always("amqp://127.0.0.1:1"), Address: "q", Lease: time.Second},
		"lease":   {Run: "r", URL: testutil.Always("amqp://127.0.0.1:1"), Address: "q"},
		"address": {Run: "r", URL: testutil.Always("amqp://127.0.0.1:1"), Lease: time.Second},
		"amqps":   {Run: "r", URL: testutil.Always("http://me:secret@127.0.0.1:1"), Address: "q", Lease: time.Second},
		"connect": {Run: "r", URL: testutil.Always("amqp://me:secret@127.0.0.1:1"), Address: "q", Lease: time.Second},
		"AMQP":    {Run: "r", URL: testutil.Always("amqp://me:secret@%zz"), Address: "q", Lease: time.Second},
	} {
		q, err := Open(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v, %v", o, q, err)
		}
	}
}
