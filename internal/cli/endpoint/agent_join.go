package endpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/fleet/bus"
	"github.com/hopbench/hopbench/internal/fleet/join"
	"github.com/hopbench/hopbench/internal/fleet/samples"
	"github.com/hopbench/hopbench/internal/fleet/subject"
	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/printable"
)

// joinAddress completes the value of --join: where the broker is, or servers of a cluster,
// separated by commas, at the port where none is written.
func joinAddress(text string, port int) (string, error) {
	all := strings.Split(text, ",")
	for i, one := range all {
		at := strings.TrimPrefix(one, "tls://")
		if host, digits, err := net.SplitHostPort(at); err == nil {
			if n, err := strconv.ParseUint(digits, 10, 16); err != nil || n == 0 || host == "" {
				at = ""
			}
		} else if at = strings.Trim(at, "[]"); at != "" && !strings.ContainsAny(at, "/@ ") {
			at = net.JoinHostPort(at, strconv.Itoa(port))
		} else {
			at = ""
		}
		if at == "" {
			return "", base.Usage(fmt.Errorf("--join %s: write where the coordinator is, such as coordinator.example.com or 10.0.0.5:%d", strconv.Quote(text), port))
		}
		all[i] = at
	}
	return strings.Join(all, ","), nil
}

// machineName is this host's name as a fleet can have it: its first part, with other signs
// than letters, digits and underscores as hyphens.
func machineName() string {
	host, _ := os.Hostname() // none is no name, which is said then
	host, _, _ = strings.Cut(host, ".")
	name := strings.Map(func(r rune) rune {
		if subject.CheckName(string(r)) != nil {
			return '-'
		}
		return r
	}, host)
	return name[:min(len(name), 63)]
}

// joinFleet is an agent of a fleet.
func joinFleet(ctx context.Context, stderr io.Writer, f agentFlags, o agent.Options) error {
	if f.tokenFile == "" {
		return base.Usage(errors.New("agent --join needs the fleet's join file: hopbench testbed join FILE makes it where the coordinator is; name it with --token-file"))
	}
	text, err := base.ReadBounded(f.tokenFile, join.MaxFileBytes)
	if err != nil {
		return base.Usage(fmt.Errorf("read the join file: %w", err))
	}
	file, err := join.Parse(text)
	if err != nil {
		return base.Usage(fmt.Errorf("%s: %w", f.tokenFile, err))
	}
	port := join.DefaultPort
	if file.Cluster != nil {
		port = join.ClusterPort
	}
	address, err := joinAddress(f.join, port)
	if err != nil {
		return err
	}
	name := cmp.Or(f.name, machineName())
	if err := subject.CheckName(name); err != nil {
		return base.Usage(fmt.Errorf("--name: %w", err))
	}
	for _, label := range f.labels {
		if err := bus.CheckLabel(label); err != nil {
			return base.Usage(fmt.Errorf("--label: %w", err))
		}
	}
	if o.Samples, err = newOutbox(); err != nil {
		return err
	}
	warnOfToken(stderr, f.tokenFile, file.Token)
	lines := base.NewLineWriter(stderr)
	defer lines.Close()
	var state func(bus.State, error)
	if !f.quiet {
		o.Log = base.NewLog(lines)
		state = logStates(lines)
	}
	keepBelow(hostinfo.MaxMemoryBytes())
	fmt.Fprintf(stderr, "agent %s of fleet %s, end with Ctrl-C\n  orders:   from its coordinator at %s\n  one test: %s\n", name, file.Fleet, address, oneTest(o.Limits))
	return bus.Join(ctx, bus.AgentOptions{
		Address: address, File: file, Name: name, Hello: bus.Hello{Version: hostinfo.Version(), Labels: f.labels},
		Serve:   func(ctx context.Context, link io.ReadWriteCloser) error { return agent.Serve(ctx, link, o) },
		OnState: state,
	})
}

// states say how it stands with an agent and its coordinator.
var states = map[bus.State]string{
	bus.Waiting: "connected, waits for the coordinator",
	bus.Working: "works for the coordinator",
	bus.Away:    "not connected, tries again",
}

// logStates writes a line for each change. An agent without a coordinator tries again every few
// seconds, for months: what it says each time is written once.
func logStates(w io.Writer) func(bus.State, error) {
	last := ""
	return func(s bus.State, why error) {
		text := states[s]
		if why != nil {
			text += ": " + why.Error()
		}
		if text == last {
			return
		}
		last = text
		fmt.Fprintf(w, "%s  %s\n", time.Now().Format(time.TimeOnly), printable.Line(text, longestEvent))
	}
}

// outboxBytes is what an agent of a fleet keeps of samples that its coordinator does not
// have on its disk.
const outboxBytes = 64 << 20

// newOutbox holds the samples of an agent that joins a fleet.
func newOutbox() (*samples.Outbox, error) {
	coder, err := samples.NewCoder()
	if err != nil {
		return nil, err
	}
	return samples.NewOutbox(coder, outboxBytes), nil
}
