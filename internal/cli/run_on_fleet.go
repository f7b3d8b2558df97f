package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/cli/live"
	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/fleet/join"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/testbed/fleet"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
)

// reachFleet makes pairs of the machines of a run's fleet, which it opens first unless that
// is done.
func (r *session) reachFleet(ctx context.Context) (testbed.Testbed, error) {
	if r.fleet == nil {
		secret, made, err := openJoin(r.inventory)
		if err != nil {
			return nil, err
		}
		if made {
			fmt.Fprintf(r.Err, "%s is new: every machine needs it, as hopbench testbed join FILE says\n", base.Shown(r.inventory.Broker.JoinFile))
		}
		if r.samples == nil {
			if err := r.collectSamples(ctx); err != nil {
				return nil, err
			}
		}
		r.notes = base.NewLineWriter(r.Err) // thousands of machines may vanish at a time
		r.fleet, err = fleet.Open(ctx, fleet.Options{
			Inventory: r.inventory, Secret: secret, Samples: r.samples, Before: r.head.Testbed.Paths, Run: queueRun(r.head), Ledger: r.store,
			OnNote: func(note string) {
				if !r.flags.quiet {
					fmt.Fprintf(r.notes, "note: %s\n", base.Shown(note))
				}
			},
			OnEvent: func(e event.Event) { live.Publish(r.flags.views.Stream, e) },
		})
		if err != nil {
			r.notes.Close()
			return nil, err
		}
		if !r.flags.quiet {
			fmt.Fprintf(r.Err, "machines join at %v\n", cmp.Or(r.inventory.Broker.URL, r.fleet.Addr().String()))
		}
	}
	line := live.NewLine(r.Err, r.flags.quiet)
	defer line.Clear()
	last := ""
	bed, err := r.fleet.Build(ctx, r.e, func(roles []fleet.Role) {
		texts := make([]string, len(roles))
		for i, role := range roles {
			texts[i] = role.String()
		}
		text := strings.Join(texts, ", ")
		line.Draw(text)
		if !r.flags.quiet && !line.Shown && text != last {
			fmt.Fprintln(r.Err, base.Shown(text))
		}
		last = text
	})
	if err != nil {
		return nil, err
	}
	return bed, nil
}

// queueRun is the name of a run in a queue of seats: the same when it is resumed, and no
// other's.
func queueRun(head store.Head) string {
	at := head.Started.UTC()
	return fmt.Sprintf("%s-%s%03d", head.Name, at.Format("20060102T150405"), at.Nanosecond()/int(time.Millisecond))
}

// lookAtQueue looks whether the queue of a fleet answers, and what it still holds. One in the
// fleet's own broker is there only during a run, and its machines are reached by nobody.
func lookAtQueue(ctx context.Context, c checked) ([]testbed.Finding, error) {
	q, f := c.inventory.Queue, testbed.Finding{Severity: testbed.Note, Where: "queue"}
	name := ""
	switch {
	case q.ServiceBus != nil:
		name = q.ServiceBus.Name
	case q.AMQP != nil:
		name = q.AMQP.Address
	default:
		return nil, nil
	}
	seats, more, err := fleet.Waiting(ctx, q)
	switch {
	case err != nil:
		f.Severity, f.What, f.Remedy = testbed.Wrong, err.Error(), "start its broker, or correct queue: in the testbed file"
	case len(seats) == 0:
		f.What = name + " answers and is empty"
	default:
		f.Severity, f.What, f.Remedy = testbed.Warning, name+" answers and holds "+heldSeats(seats, more), "end that run if it goes on; else the next one removes what it left"
	}
	return []testbed.Finding{c.found(f)}, nil
}

// heldSeats says what a queue holds: seats by run, "" for messages that are none.
func heldSeats(seats map[string]int, more bool) string {
	var held []string
	for _, run := range slices.Sorted(maps.Keys(seats)) {
		if run == "" {
			held = append(held, quantity.Count(seats[run], "message")+" that are no seats")
		} else {
			held = append(held, fmt.Sprintf("%s of run %s", quantity.Count(seats[run], "seat"), run))
		}
	}
	if more {
		held = append(held, "and more")
	}
	return strings.Join(held, ", ")
}

// openJoin reads the join file of a fleet and its key, or makes them.
func openJoin(in *inventory.Inventory) (join.Secret, bool, error) {
	b := in.Broker
	if b.URL == "" {
		return join.Open(b.JoinFile, in.Name)
	}
	var cluster join.Cluster
	if b.CAFile != "" {
		text, err := base.ReadBounded(b.CAFile, join.MaxFileBytes)
		if err != nil {
			return join.Secret{}, false, fmt.Errorf("read who vouches for the cluster's servers (ca_file:): %w", err)
		}
		cluster.CA = string(text)
	}
	return join.OpenCluster(b.JoinFile, in.Name, cluster)
}

// natsFlag has machines join at a cluster.
const natsFlag = "nats"

const natsUsage = "let the machines of a fleet join over your own NATS cluster: tls://HOST:PORT, separated by commas (default: a broker in this process)"

// joinAt has the machines of a fleet join at a cluster, if urls has one.
func joinAt(in *inventory.Inventory, urls string) error {
	if urls == "" {
		return nil
	}
	if in == nil || in.Broker == nil {
		return base.Usage(fmt.Errorf("--%s is for fleets: name a testbed file of kind: fleet", natsFlag))
	}
	at, err := inventory.ParseCluster(urls)
	if err != nil {
		return base.Usage(fmt.Errorf("--%s: %w", natsFlag, err))
	}
	in.Broker.URL = at
	return nil
}
