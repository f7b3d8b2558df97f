package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/cli/live"
	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/fleet/broker"
	"github.com/hopbench/hopbench/internal/fleet/join"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/testbed/fleet"
	"github.com/hopbench/hopbench/internal/testbed/hosts"
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
		notes := base.NewLineWriter(r.Err) // thousands of machines may vanish at a time
		r.fleet, err = fleet.Open(fleet.Options{
			Inventory: r.inventory, Secret: secret, Samples: r.samples, Before: r.head.Testbed.Paths, Run: queueRun(r.head), Ledger: r.store,
			OnNote: func(note string) {
				if !r.flags.quiet {
					fmt.Fprintf(notes, "note: %s\n", base.Shown(note))
				}
			},
			OnEvent: func(e event.Event) { live.Publish(r.flags.views.Stream, e) },
		})
		if err != nil {
			notes.Close()
			return nil, err
		}
		r.endFleet = func() error {
			defer notes.Close()
			return r.fleet.Close()
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

// findQueue looks whether the queue of a fleet answers, and what it still holds.
func findQueue(ctx context.Context, q inventory.Queue) []hosts.Finding {
	const where = "queue"
	var name string
	if q.ServiceBus != nil {
		name = q.ServiceBus.Name
	} else {
		name = q.AMQP.Address
	}
	seats, more, err := fleet.Waiting(ctx, q)
	if err != nil {
		return []hosts.Finding{{Severity: hosts.Wrong, Where: where, What: err.Error(), Remedy: "start its broker, or correct queue: in the testbed file"}}
	}
	if len(seats) == 0 {
		return []hosts.Finding{{Severity: hosts.Note, Where: where, What: fmt.Sprintf("%s answers and is empty", name)}}
	}
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
	return []hosts.Finding{{Severity: hosts.Warning, Where: where, What: fmt.Sprintf("%s answers and holds %s", name, strings.Join(held, ", ")),
		Remedy: "end that run if it goes on; else the next one removes what it left"}}
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

func testbedJoinCommand(s base.Streams) *cobra.Command {
	var cloudInit, nats string
	c := &cobra.Command{
		Use:   "join FILE",
		Short: "Create the join file of a fleet, and print what its machines need",
		Long: `join creates the file that the machines of a fleet (kind: fleet) need to join, unless it
exists, and next to it the key of the broker, which stays on this machine. Anyone with
the join file can join. To lock out all machines that have it, remove both files, create
new ones, and give the join file to the machines.`,
		Example: `  hopbench testbed join office.yaml
  hopbench testbed join office.yaml --cloud-init client > client.cloud-config`,
		Args:              base.Exactly("FILE"),
		ValidArgsFunction: completeYAML,
		RunE: func(_ *cobra.Command, args []string) error {
			in, err := loadTestbed(args[0], nil)
			if err != nil {
				return err
			}
			if in.Broker == nil {
				return base.Usage(fmt.Errorf("%s is no fleet: only machines of kind: fleet join", args[0]))
			}
			if err := joinAt(in, nats); err != nil {
				return err
			}
			return sayHowToJoin(s.Out, in, cloudInit)
		},
	}
	c.Flags().StringVar(&cloudInit, "cloud-init", "", "print a cloud-config for the machines of this endpoint; it contains the join file")
	c.Flags().StringVar(&nats, natsFlag, "", natsUsage)
	return c
}

func sayHowToJoin(w io.Writer, in *inventory.Inventory, cloudInit string) error {
	secret, made, err := openJoin(in)
	if err != nil {
		return err
	}
	at := "THIS-HOST"
	if host, err := os.Hostname(); err == nil {
		at = host
	}
	if a := in.Broker.Listen.Addr(); a.IsValid() {
		at = a.String()
	}
	if port := in.Broker.Listen.Port(); port != 0 && port != join.DefaultPort {
		at = net.JoinHostPort(at, strconv.Itoa(int(port)))
	}
	if in.Broker.URL != "" {
		at = in.Broker.URL
	}
	if cloudInit != "" {
		i := slices.IndexFunc(in.Endpoints, func(e inventory.Endpoint) bool { return e.Name == cloudInit })
		if i < 0 {
			return base.Usage(fmt.Errorf("--cloud-init %q: the testbed file has no such endpoint", cloudInit))
		}
		text, err := json.Marshal(secret.File)
		if err != nil {
			return fmt.Errorf("write down the join file: %w", err)
		}
		_, err = fmt.Fprintf(w, cloudConfig, text, at, in.Endpoints[i].Reach.Label)
		return err
	}
	state := "is there"
	if made {
		state = "is new"
	}
	fmt.Fprintf(w, "%s %s: copy it to every machine of the fleet, readable for its agent alone. Then, there:\n", in.Broker.JoinFile, state)
	for _, e := range in.Endpoints {
		fmt.Fprintf(w, "  hopbench agent --join %s --token-file %s --label %s\n", at, filepath.Base(in.Broker.JoinFile), e.Reach.Label)
	}
	if in.Broker.URL == "" {
		return nil
	}
	config, err := broker.ClusterConfig(secret)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "The cluster's servers need this in their configuration, and JetStream:\n%s", config)
	return err
}

// cloudConfig takes the join file, where to join, and the label.
const cloudConfig = `#cloud-config
# /usr/local/bin/hopbench has to be in the image, or put there before this.
write_files:
- path: /etc/hopbench/join
  permissions: '0600'
  content: '%s'
- path: /etc/systemd/system/hopbench-agent.service
  content: |
    [Unit]
    Description=hopbench agent
    Wants=network-online.target
    After=network-online.target
    [Service]
    ExecStart=/usr/local/bin/hopbench agent --join %s --token-file /etc/hopbench/join --label %s
    Restart=always
    RestartSec=10
    [Install]
    WantedBy=multi-user.target
runcmd:
- [systemctl, daemon-reload]
- [systemctl, enable, --now, hopbench-agent]
`
