package fleet

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/fleet/amqp"
	"github.com/hopbench/hopbench/internal/fleet/amqp/amqptest"
	"github.com/hopbench/hopbench/internal/fleet/ledger"
	"github.com/hopbench/hopbench/internal/fleet/seat"
	"github.com/hopbench/hopbench/internal/fleet/servicebus"
	"github.com/hopbench/hopbench/internal/fleet/servicebus/servicebustest"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
	"github.com/hopbench/hopbench/internal/testutil"
)

// A fleet's seats are in the queue that its testbed file says. What another run left there is
// removed, at its end it is empty, and a broker that starts again costs generations and no
// trial.
func TestBrokersOfAFleet(t *testing.T) {
	broker, at := amqptest.RabbitMQ(t)
	u, err := url.Parse(at)
	testutil.OK(t, err)
	password, _ := u.User.Password()
	file := filepath.Join(t.TempDir(), "password")
	testutil.OK(t, os.WriteFile(file, []byte(password+"\n"), 0o600))
	q := inventory.AMQPQueue{URL: u.Scheme + "://" + u.Host, Address: "/queue/hopbench", User: u.User.Username(), PasswordFile: file}
	earlier, err := amqp.Open(t.Context(), amqp.Options{URL: testutil.Always(at), Address: q.Address, Run: "earlier", Lease: time.Minute})
	testutil.OK(t, err)
	seatsAreAt(t, broker, inventory.Queue{AMQP: &q}, earlier)
}

func TestBrokersOfAFleetServiceBus(t *testing.T) {
	broker, connection := servicebustest.StandIn(t, "../../..", 15*time.Second)
	file := filepath.Join(t.TempDir(), "connection")
	testutil.OK(t, os.WriteFile(file, []byte(connection+"\n"), 0o600))
	earlier, err := servicebus.Open(t.Context(), servicebus.Options{ConnectionString: testutil.Always(connection), Queue: "hopbench", Run: "earlier", Lease: time.Minute})
	testutil.OK(t, err)
	seatsAreAt(t, broker, inventory.Queue{ServiceBus: &inventory.ServiceBusQueue{Name: "hopbench", ConnectionFile: file}}, earlier)
}

func seatsAreAt(t *testing.T, broker *amqptest.Broker, q inventory.Queue, earlier seat.Queue) {
	testutil.OK(t, earlier.Offer(t.Context(), seat.Seat{ID: "1", Generation: 7}))
	testutil.OK(t, earlier.Close())
	waits := func(want map[string]int) {
		t.Helper()
		seats, more, err := Waiting(t.Context(), q)
		if err != nil || more || len(seats) != len(want) || seats["earlier"] != want["earlier"] {
			t.Errorf("in the queue: %v, more %v, %v; want %v", seats, more, err, want)
		}
	}
	waits(map[string]int{"earlier": 1})

	y := newYard(t, time.Minute)
	book := y.book
	y.Inventory.Queue.AMQP, y.Inventory.Queue.ServiceBus = q.AMQP, q.ServiceBus
	y.machines(t, "c1", "c2", "s1", "s2")
	bed := y.build(t, 2)
	book.says(t, leased(1, 1, "c1", "s1"), leased(2, 1, "c2", "s2"))
	testutil.OK(t, bed.Close())
	testutil.OK(t, y.Close())
	waits(nil)

	y = yardWith(t, 10*time.Minute, nil, book)
	y.Inventory.Queue.AMQP, y.Inventory.Queue.ServiceBus = q.AMQP, q.ServiceBus
	y.machines(t, "c1", "c2", "s1", "s2")
	bed = y.build(t, 2)
	var lost []<-chan struct{}
	for _, seat := range y.seats.taken {
		lost = append(lost, seat.lease.Lost())
	}
	broker.Kill()
	starts, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	testutil.OK(t, broker.Start(starts))
	for _, l := range lost {
		<-l
	}
	testutil.OK(t, bed.Begin(t.Context(), "b01"))
	for id := 1; id <= 2; id++ {
		if got := book.copy().seats[id]; got.State != ledger.Leased || got.Generation < 3 {
			t.Errorf("the ledger says %+v", got)
		}
	}
	if err := bed.Err(); err != nil {
		t.Error(err)
	}
	testutil.OK(t, bed.Close())
	testutil.OK(t, y.Close())
	broker.Kill()
	if _, _, err := Waiting(t.Context(), q); err == nil {
		t.Error("a broker that is away answers")
	}
}
