package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/fleet/broker"
	"github.com/hopbench/hopbench/internal/fleet/join"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
)

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
		ValidArgsFunction: base.First(completeYAML),
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
