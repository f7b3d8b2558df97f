package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/fleet/amqp"
	"github.com/hopbench/hopbench/internal/fleet/bus"
	"github.com/hopbench/hopbench/internal/fleet/seat"
	"github.com/hopbench/hopbench/internal/fleet/servicebus"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
)

// ownQueue opens the queue that the testbed file says.
func (f *Fleet) ownQueue(ctx context.Context, run string, lease time.Duration) (seat.Queue, error) {
	if q := f.Inventory.Queue.AMQP; q != nil {
		o, err := amqpOptions(*q, run, lease)
		if err != nil {
			return nil, err
		}
		return amqp.Open(ctx, o)
	}
	if q := f.Inventory.Queue.ServiceBus; q != nil {
		o, err := serviceBusOptions(*q, run, lease)
		if err != nil {
			return nil, err
		}
		return servicebus.Open(ctx, o)
	}
	return f.bus.Seats(ctx, bus.SeatOptions{Run: run, Lease: lease, Size: f.Inventory.Broker.MaxAgents})
}

// maxSecret bounds the file of a password or a connection string, in bytes.
const maxSecret = 4096

// readSecret reads a file of one line, which holds what is said.
func readSecret(path, what string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read the %s: %w", what, err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxSecret+1))
	secret := strings.TrimRight(string(text), "\r\n")
	switch {
	case err != nil:
		return "", fmt.Errorf("read the %s: %w", what, err)
	case secret == "" || len(text) > maxSecret:
		return "", fmt.Errorf("%s does not hold the %s: one line of up to %d bytes is wanted", path, what, maxSecret)
	}
	return secret, nil
}

// serviceBusOptions fails where there is no connection string to begin with.
func serviceBusOptions(q inventory.ServiceBusQueue, run string, lease time.Duration) (servicebus.Options, error) {
	connection := func() (string, error) { return readSecret(q.ConnectionFile, "connection string of Service Bus") }
	_, err := connection()
	return servicebus.Options{ConnectionString: connection, Queue: q.Name, Run: run, Lease: lease}, err
}

// amqpOptions fails where there is no password to begin with.
func amqpOptions(q inventory.AMQPQueue, run string, lease time.Duration) (amqp.Options, error) {
	address := func() (string, error) { return amqpAddress(q) }
	_, err := address()
	return amqp.Options{URL: address, Address: q.Address, Run: run, Lease: lease}, err
}

// amqpAddress is that of the broker, with user and password.
func amqpAddress(q inventory.AMQPQueue) (string, error) {
	if q.PasswordFile == "" {
		return q.URL, nil
	}
	password, err := readSecret(q.PasswordFile, "password of the AMQP broker")
	if err != nil {
		return "", err
	}
	u, err := url.Parse(q.URL)
	if err != nil {
		return "", errors.New("the address of the AMQP broker is none") // without what it says
	}
	u.User = url.UserPassword(q.User, password)
	return u.String(), nil
}

// Waiting looks for what is in a queue that is not the fleet's own, without taking it: how many
// seats of which run. What is no seat is of the run "". More says that there is more than is
// told.
func Waiting(ctx context.Context, q inventory.Queue) (seats map[string]int, more bool, err error) {
	const check = "check" // no run's name
	if q.ServiceBus != nil {
		o, err := serviceBusOptions(*q.ServiceBus, check, inventory.DefaultLease)
		if err != nil {
			return nil, false, err
		}
		return servicebus.Waiting(ctx, o)
	}
	o, err := amqpOptions(*q.AMQP, check, inventory.DefaultLease)
	if err != nil {
		return nil, false, err
	}
	return amqp.Waiting(ctx, o)
}
