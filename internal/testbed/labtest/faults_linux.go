package labtest

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/measurement"
	testbedlab "github.com/hopbench/hopbench/internal/testbed/lab"
	"github.com/hopbench/hopbench/internal/trial"
	"github.com/hopbench/hopbench/internal/words"
)

// The nodes of Faulty: a and b are the ends, the path hopped has one hop between them.
const (
	faultySource      = "a"
	faultyDestination = "b"
	faultyHop         = "hopped/hop"
)

// faultyPath is the path on which faults are planted.
const faultyPath = "hopped"

const faulty = `format: hopbench.experiment/1
name: faulty
endpoints: [{name: a}, {name: b}]
source: a
destination: b
baseline: direct
paths:
  - {name: direct, hops: [{type: link, name: wire}]}
  - {name: hopped, hops: [{type: router, name: hop, rate: 200Mbit}]}
tests:
  - {name: latency, kind: rr, duration: 100ms}
`

// Faulty is the experiment in whose lab faults are planted.
func Faulty() (*experiment.Experiment, error) { return experiment.Load("faulty.yaml", []byte(faulty)) }

// Fault is something that goes wrong on real wires, and what the gates must say of a
// trial on faultyPath then.
type Fault struct {
	Name string
	// Gate is the one that must speak. Passed and Broken are the judgement: neither is
	// a missing trial.
	Gate           string
	Passed, Broken bool
	Spec           measurement.Spec
	// Instrument is how the first trial of the test was measured.
	Instrument map[string]string
	// During plants the fault when traffic flows, not before.
	During bool
	// Hidden faults cannot be told from what full CPUs do.
	Hidden bool
	// Deadly faults end the lab. Long ones are for tests that are run at length. Those that
	// wait do so until a dead connection is given up: labs of their own may stand beside.
	Deadly, Long, Waits bool
	plant               func(ctx context.Context, l *testbedlab.Lab) error
	heal                func(ctx context.Context, l *testbedlab.Lab) error
}

// Try does a trial with the fault and takes it away again.
func (f Fault) Try(ctx context.Context, l *testbedlab.Lab) (done trial.Done, err error) {
	var planted error
	plant := sync.OnceFunc(func() { planted = f.plant(ctx, l) })
	var progress func(measurement.Progress)
	if f.During {
		progress = func(measurement.Progress) { plant() }
	} else if plant(); planted != nil {
		return done, planted
	}
	done, err = trial.Do(ctx, l, trial.Wanted{ID: "t", Path: faultyPath, Spec: f.Spec.Defaults(), Instrument: f.Instrument}, progress)
	if err == nil {
		err = planted
	}
	if f.heal != nil && err == nil {
		err = f.heal(ctx, l)
	}
	return done, err
}

// Misjudged says in what a judgement is not that of the fault; empty where it is.
func (f Fault) Misjudged(g measurement.Gate) string {
	spoke := f.Gate == "" || slices.ContainsFunc(g.Findings, func(x measurement.Finding) bool { return x.Name == f.Gate && x.Fatal != f.Passed })
	full := slices.ContainsFunc(g.Findings, func(x measurement.Finding) bool { return x.Code == measurement.FoundBusyCPUs })
	if g.Passed == f.Passed && g.Broken == f.Broken && spoke || f.Hidden && full {
		return ""
	}
	return fmt.Sprintf("passed %v, broken %v, want %v and %v by the gate %q: %s", g.Passed, g.Broken, f.Passed, f.Broken, f.Gate, words.Findings(g, false))
}

// Faults are all of them, one for each gate that something on a wire, or a process,
// can move.
func Faults() []Fault {
	tcp := measurement.Spec{Kind: measurement.TCP, Flows: 2, Duration: 0.5, MaxWarmup: 0.2}
	ports := tcp // of the source, counted from this one
	ports.SourcePort = 20000
	udp := measurement.Spec{Kind: measurement.UDP, RateBitsPerSecond: 5e6, Duration: 0.4, MaxWarmup: 0.2}
	second := tcp
	second.Duration = 1
	steady := second // 5 MB a second
	steady.PacingBitsPerSecond = 20e6
	rr := measurement.Spec{Kind: measurement.RR, Protocol: measurement.OverUDP, Duration: 0.3, MaxWarmup: 0.01}
	impatient := rr
	impatient.Timeout = 0.05
	fast := udp
	fast.RateBitsPerSecond = 20e6
	ping := measurement.Spec{Kind: measurement.Ping, Count: 20, Interval: 0.05}
	cpus := &burner{}
	const synOnly = "tcp flags & (syn|ack) == syn "
	return []Fault{
		{Name: "flows reset", Gate: "test", Broken: true, Spec: tcp, plant: filter("meta l4proto tcp quota over 100 kbytes reject with tcp reset"), heal: unfilter},
		{Name: "one flow reset", Long: true, Gate: "test", Broken: true, Spec: ports, plant: filter("tcp sport 20001 quota over 100 kbytes reject with tcp reset"), heal: unfilter},
		{Name: "connections refused", Long: true, Gate: "test", Broken: true, Spec: tcp, plant: filter("tcp dport 5201 reject with tcp reset"), heal: unfilter},
		{Name: "host unreachable", Long: true, Gate: "test", Broken: true, Spec: tcp, plant: filter("meta l4proto tcp reject with icmp type host-unreachable"), heal: unfilter},
		{Name: "black hole from the start", Long: true, Waits: true, Gate: "test", Broken: true, Spec: tcp, plant: filter("drop"), heal: unfilter},
		{Name: "black hole, and ping", Long: true, Waits: true, Gate: "fingerprint", Broken: true, Spec: ping, plant: filter("drop"), heal: unfilter},
		{Name: "black hole in the middle", Long: true, Waits: true, Gate: "test", Broken: true, Spec: tcp, plant: filter("meta l4proto tcp quota over 100 kbytes drop"), heal: unfilter},
		{Name: "black hole on the way there", Long: true, Waits: true, Gate: "test", Broken: true, Spec: steady, plant: filter("ip daddr 10.1.1.2 meta l4proto tcp quota over 2 mbytes drop"), heal: unfilter},
		{Name: "black hole on the way there near the end", Waits: true, Gate: "test", Broken: true, Spec: steady, plant: filter("ip daddr 10.1.1.2 meta l4proto tcp quota over 4 mbytes drop"), heal: unfilter},
		{Name: "a flow starves", Long: true, Gate: "enough-flow", Broken: true, Spec: ports, plant: filter("tcp sport 20001 limit rate over 30 kbytes/second burst 20 kbytes drop"), heal: unfilter},
		{Name: "all packets lost", Gate: "loss", Broken: true, Spec: udp, plant: filter("meta l4proto udp quota over 20 kbytes drop"), heal: unfilter},
		{Name: "few packets left", Long: true, Gate: "enough-packets", Broken: true, Spec: udp, plant: filter("meta l4proto udp limit rate over 50/second burst 5 packets drop"), heal: unfilter},
		{Name: "most answers lost", Long: true, Gate: "enough-samples", Broken: true, Spec: impatient, plant: filter("udp dport 5201 limit rate over 4/second burst 5 packets drop"), heal: unfilter},
		{Name: "connections come to nothing", Long: true, Gate: "connections", Broken: true, Spec: measurement.Spec{Kind: measurement.CRR, Duration: 0.3, MaxWarmup: 0.01},
			plant: filter(synOnly + "limit rate over 30/second burst 40 packets reject with tcp reset"), heal: unfilter},
		{Name: "no more connections", Gate: "test", Broken: true, Spec: measurement.Spec{Kind: measurement.CRR, Duration: 0.5, MaxWarmup: 0.01},
			plant: filter(synOnly + "quota over 6 kbytes reject with icmp type host-unreachable"), heal: unfilter},
		{Name: "the hop's link dies", Gate: "test", Broken: true, Spec: tcp, During: true, Deadly: true,
			plant: kill(`^hopbench-lab-link .*` + faultyHop)},
		{Name: "the server dies", Long: true, Gate: "test", Spec: tcp, During: true, Deadly: true, plant: kill(`^hopbench:b `)},
		{Name: "the server stands still", Long: true, Hidden: true, Gate: "standstill", Spec: second, During: true, plant: stop(`^hopbench:b `)},
		{Name: "the source stands still", Long: true, Hidden: true, Gate: "standstill", Spec: second, During: true, plant: stop(`^hopbench:a `)},
		{Name: "the destination loses its address", Gate: "test", Spec: ping, During: true, Deadly: true, plant: atDestination("ip addr flush dev %s")},
		{Name: "the destination loses its address under load", Long: true, Waits: true, Gate: "test", Spec: second, During: true, Deadly: true, plant: atDestination("ip addr flush dev %s")},
		{Name: "the destination's interface is set down", Long: true, Gate: "test", Spec: ping, During: true, Deadly: true, plant: atDestination("ip link set %s down")},
		{Name: "the source's interface is set down", Long: true, Waits: true, Gate: "test", Spec: second, During: true, Deadly: true, plant: atSource("ip link set %s down")},
		{Name: "another router", Long: true, Gate: "fingerprint", Spec: tcp,
			plant: onHop("nft 'add table ip planted; add chain ip planted c { type filter hook output priority 0 ; }; add rule ip planted c icmp type time-exceeded ip saddr set 10.1.1.3'"),
			heal:  onHop("nft delete table ip planted")},
		{Name: "another time to live", Gate: "fingerprint", Spec: tcp, plant: filter("ip ttl set 40"), heal: unfilter},
		{Name: "another way to send", Long: true, Gate: "instrument", Spec: tcp, Instrument: map[string]string{"send_method": "carrier pigeon"}, plant: nothing},
		{Name: "the sender's own queue drops packets", Gate: "local-drops", Passed: true, Spec: fast,
			plant: atSource("tc qdisc replace dev %s root tbf rate 10mbit burst 3kb limit 3kb"), heal: atSource("tc qdisc del dev %s root")},
		{Name: "the sender's own queue drops segments", Long: true, Gate: "local-drops", Passed: true, Spec: tcp,
			plant: atSource("tc qdisc replace dev %s root tbf rate 20mbit burst 3kb limit 6kb"), heal: atSource("tc qdisc del dev %s root")},
		{Name: "burned CPUs", Long: true, Gate: "cpu", Passed: true, Spec: measurement.Spec{Kind: measurement.TCP, Flows: 2, Duration: 1, MaxWarmup: 0.2}, plant: cpus.burn, heal: cpus.douse},
		{Name: "nothing", Passed: true, Spec: tcp, plant: nothing},
		{Name: "nothing, over UDP", Long: true, Passed: true, Spec: udp, plant: nothing},
		{Name: "nothing, round trips", Long: true, Passed: true, Spec: rr, plant: nothing},
	}
}

func nothing(context.Context, *testbedlab.Lab) error { return nil }

// filter has the hop apply a rule to all that it forwards.
func filter(rule string) func(context.Context, *testbedlab.Lab) error {
	return onHop("nft 'add table inet planted; add chain inet planted c { type filter hook forward priority 0 ; }; add rule inet planted c " + rule + "'")
}

func unfilter(ctx context.Context, l *testbedlab.Lab) error {
	return onHop("nft delete table inet planted")(ctx, l)
}

func onHop(script string) func(context.Context, *testbedlab.Lab) error {
	return func(ctx context.Context, l *testbedlab.Lab) error { return shell(ctx, l, faultyHop, script) }
}

// atSource and atDestination run a command on the interface of an end that leads onto the path.
func atSource(command string) func(context.Context, *testbedlab.Lab) error {
	return atEnd(faultySource, command, func(p lab.Path) netip.Addr { return p.Source })
}

func atDestination(command string) func(context.Context, *testbedlab.Lab) error {
	return atEnd(faultyDestination, command, func(p lab.Path) netip.Addr { return p.Destination })
}

func atEnd(end, command string, address func(lab.Path) netip.Addr) func(context.Context, *testbedlab.Lab) error {
	return func(ctx context.Context, l *testbedlab.Lab) error {
		for _, p := range l.Laid() {
			if p.Name == faultyPath {
				return shell(ctx, l, end, strings.ReplaceAll(command, "%s", "$(ip -o addr show to "+address(p).String()+" | cut -d' ' -f2)"))
			}
		}
		return fmt.Errorf("no path %s", faultyPath)
	}
}

func kill(pattern string) func(context.Context, *testbedlab.Lab) error {
	return func(context.Context, *testbedlab.Lab) error { return Kill(pattern) }
}

// stop has a process stand still for a while.
func stop(pattern string) func(context.Context, *testbedlab.Lab) error {
	return func(context.Context, *testbedlab.Lab) error { return Stop(pattern, 300*time.Millisecond) }
}

// burner has processes do nothing but run, until it is doused.
type burner struct {
	stop context.CancelFunc
	done sync.WaitGroup
}

func (b *burner) burn(ctx context.Context, l *testbedlab.Lab) error {
	ctx, b.stop = context.WithTimeout(ctx, time.Minute) // should nobody douse it
	for range 2 * runtime.NumCPU() {
		b.done.Go(func() {
			_, _ = l.Exec(ctx, faultySource, lab.Command{Argv: []string{"sh", "-c", "while :; do :; done"}}) // it is killed
		})
	}
	return nil
}

func (b *burner) douse(context.Context, *testbedlab.Lab) error {
	b.stop()
	b.done.Wait()
	return nil
}

// shell runs a script in a node; its error says what the script said.
func shell(ctx context.Context, l *testbedlab.Lab, node, script string) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	said := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(read) // it ends with the script
		said <- string(text)
	}()
	status, err := l.Exec(ctx, node, lab.Command{Argv: []string{"sh", "-c", script}, Stderr: write})
	write.Close()
	if text := <-said; err == nil && status != 0 {
		err = fmt.Errorf("%s in %s: status %d: %s", script, node, status, text)
	}
	return err
}
