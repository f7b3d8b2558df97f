package fleet

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/fleet/bus"
	"github.com/hopbench/hopbench/internal/testbed/labtest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// fault is something that fails in a run, and comes back.
type fault struct {
	kind string
	// alone and clustered are how often it is drawn, compared with others, in runs with a broker
	// of the coordinator's, and at a cluster.
	alone, clustered int
	strike           func(*killed) []string // returns who is hit
}

// faults are all kinds.
var faults = []fault{
	{"client killed", 4, 3, func(r *killed) []string { return r.killMachine("client") }},
	{"server killed", 4, 3, func(r *killed) []string { return r.killMachine("server") }},
	{"coordinator killed", 3, 3, (*killed).killCoordinator}, // with its broker, if it has one
	{"connection cut", 3, 0, (*killed).cutConnection},
	{"network of a machine cut", 4, 2, func(r *killed) []string { return r.cutNetwork([]labtest.Machine{r.anyMachine("")}, r.short()) }},
	{"network of a machine cut for longer than the lease", 1, 1, func(r *killed) []string { return r.cutNetwork([]labtest.Machine{r.anyMachine("")}, r.long()) }},
	{"network of all machines cut", 2, 2, func(r *killed) []string { return r.cutNetwork(r.Machines, r.short()) }},
	{"NATS node killed", 0, 8, (*killed).killNode},
	{"network of a NATS node cut", 0, 3, (*killed).cutNode},
	{"disk full", 3, 2, (*killed).fillDisk},
}

// fail has something fail.
func (r *killed) fail() {
	weight := func(f fault) int {
		if r.clustered {
			return f.clustered
		}
		return f.alone
	}
	sum := 0
	for _, f := range faults {
		sum += weight(f)
	}
	drawn := r.random.IntN(sum)
	for _, f := range faults {
		if drawn -= weight(f); drawn < 0 {
			who := f.strike(r)
			r.kinds, r.said = append(r.kinds, f.kind), append(r.said, strings.TrimSpace(f.kind+" "+strings.Join(who, " ")))
			return
		}
	}
}

// anyMachine draws one whose name begins so.
func (r *killed) anyMachine(role string) labtest.Machine { return r.Machines[r.machine(role)] }

func (r *killed) machine(role string) int {
	for {
		if i := r.random.IntN(len(r.Machines)); strings.HasPrefix(r.Machines[i].Name, role) {
			return i
		}
	}
}

// short is less than what a machine may be away, with what TCP waits until it tries again.
func (r *killed) short() time.Duration {
	return 200*time.Millisecond + time.Duration(r.random.Int64N(int64(bus.AwayTime/4)))
}

// long is more than that.
func (r *killed) long() time.Duration {
	return bus.AwayTime + 4*time.Second + time.Duration(r.random.Int64N(int64(4*time.Second)))
}

// missCut is miss for a machine that works and is not reached: the test of a server goes on, and
// the run may be over before its lease.
func (r *killed) missCut(name string) {
	if strings.HasPrefix(name, "client") {
		r.miss(name)
	}
}

// miss has the report name a machine, or another of the same testbed.
func (r *killed) miss(name string) {
	// Who is lost behind the last trial is not missed.
	if under, left, while := r.progress(); under && left > 1 || len(r.lost[while]) > 0 {
		r.lost[while] = append(r.lost[while], name)
	}
}

func (r *killed) after(d time.Duration, do func()) {
	r.later = append(r.later, recovery{time.Now().Add(d), do})
}

func (r *killed) killMachine(role string) []string {
	i := r.machine(role)
	name := r.Machines[i].Name
	r.gone[name] = true
	r.miss(name)
	r.agents[i].Kill()
	r.startAgent(i)
	return []string{name}
}

func (r *killed) startAgent(i int) {
	m := r.Machines[i]
	at, joinFile := netip.AddrPortFrom(m.Coordinator, relayPort).String(), labtest.JoinFile
	if r.clustered {
		at, joinFile = strings.ReplaceAll(r.urls, "tls://", ""), clusterJoin
	}
	r.agents[i] = r.start(r.t, m.Name, append([]string{hopbenchRole}, m.Agent(at, joinFile)...)...)
}

// startRelay starts what a machine's connection passes, unless that is to a cluster.
func (r *killed) startRelay(i int) {
	if r.clustered {
		return
	}
	a := r.Machines[i].Coordinator
	r.relays[i] = r.start(r.t, labtest.CoordinatorNode, relayRole, netip.AddrPortFrom(a, relayPort).String(), netip.AddrPortFrom(a, joinPort).String())
}

// cutConnection has both ends of a machine's connection hear that it ended.
func (r *killed) cutConnection() []string {
	i := r.machine("")
	name := r.Machines[i].Name
	r.missCut(name)
	r.relays[i].Kill()
	r.startRelay(i)
	return []string{name}
}

func (r *killed) killCoordinator() []string {
	_, _, while := r.progress()
	delete(r.lost, while) // it may not have noticed
	r.coordinator.Kill()
	r.goOn()
	return nil
}

// cutNetwork has what machines and the coordinator say to each other be lost for a while, as on
// a network that has failed: nobody hears that a connection ended.
func (r *killed) cutNetwork(which []labtest.Machine, d time.Duration) (who []string) {
	var links []string
	for _, m := range which {
		links = append(links, m.Link)
		if d > bus.AwayTime {
			r.gone[m.Name] = true
			r.missCut(m.Name)
		}
		who = append(who, m.Name)
	}
	r.cut(links, d)
	if len(who) > 1 {
		who = nil
	}
	return append(who, "for", d.Round(100*time.Millisecond).String())
}

// cut cuts links by the packet filter, or takes them down.
func (r *killed) cut(links []string, d time.Duration) {
	how := func(link string, cut bool) []string {
		return []string{"ip", "link", "set", link, map[bool]string{true: "down", false: "up"}[cut]}
	}
	if r.random.IntN(2) == 0 {
		how = func(link string, cut bool) []string {
			return []string{"nft", fmt.Sprintf("%s element inet cut gone { %s }", map[bool]string{true: "add", false: "delete"}[cut], link)}
		}
	}
	// One that is cut twice is so until the last of both is over.
	set := func(link string, cut bool, before int) {
		command := how(link, cut)
		at := command[0] + link
		if cut {
			r.cuts[at]++
		} else {
			r.cuts[at]--
		}
		if r.cuts[at] == before {
			testutil.OK(r.t, r.command(labtest.CoordinatorNode, command...))
		}
	}
	for _, link := range links {
		set(link, true, 1)
		r.after(d, func() { set(link, false, 0) })
	}
}

// killNode kills one of three NATS servers, which comes back after a while; there is never a
// second one away.
func (r *killed) killNode() []string {
	i := r.node()
	r.nodes[i].Kill()
	d := time.Duration(r.random.Int64N(int64(6 * time.Second)))
	r.away = i + 1
	r.after(d, func() { r.startNode(r.t, i); r.away = 0 })
	return []string{r.Others[i].Name, "for", d.Round(100 * time.Millisecond).String()}
}

// node draws a server of the cluster, of which one that is away comes back first.
func (r *killed) node() int {
	if r.away > 0 {
		for _, l := range r.later {
			l.do()
		}
		r.later = nil
	}
	return r.random.IntN(len(r.nodes))
}

// cutNode cuts one off: who was connected there goes on when it is back, or at another.
func (r *killed) cutNode() []string {
	i := r.node()
	d := r.short()
	r.away = i + 1
	r.cut([]string{r.Others[i].Link}, d)
	r.after(d, func() { r.away = 0 })
	return []string{r.Others[i].Name, "for", d.Round(100 * time.Millisecond).String()}
}

// fillDisk has the run's disk be full for a while.
func (r *killed) fillDisk() []string {
	testutil.OK(r.t, r.disk.fill(r.random.Int64N(64<<10)))
	d := time.Duration(r.random.Int64N(int64(12 * time.Second)))
	r.after(d, r.disk.free)
	return []string{"for", d.Round(100 * time.Millisecond).String()}
}
