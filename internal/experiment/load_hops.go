package experiment

import (
	"fmt"
	"slices"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
)

// maxForwarders is how many hops of a path may forward a packet: it starts with
// a time to live of 64 and must arrive with at least 1.
const maxForwarders = 63

// combinations refuses hops that cannot be together on a path, or that no
// trial of a test could pass.
func (l *loader) combinations(e *Experiment) {
	for i := range l.file.Paths {
		f := &l.file.Paths[i]
		if e.Paths[i].VariantOf != "" {
			l.sameBypass(i, e)
			l.bypassBehind(f, e.Paths[i])
			continue
		}
		l.lifetime(f, e.Paths[i], e)
		l.balanced(f, e.Paths[i], e)
		for j := range f.Hops {
			l.flowLimit(&f.Hops[j], e.Paths[i].Tunnel, e)
		}
	}
}

// lifetime checks that packets arrive before their time to live is used up.
func (l *loader) lifetime(f *FilePath, p Path, e *Experiment) {
	n, most := 0, maxForwarders
	if e.Pairs > 1 {
		most -= 2 // the access nodes
	}
	for _, h := range p.Hops {
		if h.Type != "" && h.Forwards() {
			n += max(h.SilentHops, 1)
		}
	}
	if n > most {
		l.Wrong(&f.Hops, fmt.Sprintf("have at most %d, each of silent_hops counted", most),
			"%d hops of path %q forward packets, more than a time to live of 64 allows", n, f.Name)
	}
}

// balanced checks what stands with, and behind, the load balancer of a path.
func (l *loader) balanced(f *FilePath, p Path, e *Experiment) {
	front := slices.IndexFunc(p.Hops, func(h Hop) bool { return h.Backends > 0 })
	if front < 0 {
		return
	}
	name, last := p.Hops[front].Name, lastForwarder(p.Hops)
	for j, h := range p.Hops {
		field := &f.Hops[j]
		switch {
		case j <= front:
			continue
		case h.Backends > 0:
			l.Wrong(&field.Type, "leave one of them out", "path %q has a second load balancer behind %q", f.Name, name)
		case h.ReplacesDestination():
			l.Wrong(&field.Translate, "put the nat before the load balancer, or translate the source",
				"a nat behind the load balancer %q cannot translate the destination, which that has chosen", name)
		case h.Inspects() && j == last:
			l.Wrong(&field.Type, "put it before the load balancer", "an idps cannot stand between the load balancer %q and its back ends", name)
		}
		if h.OneWay && j == last {
			l.Wrong(&field.OneWay, "put the hop before the load balancer",
				"hop %q, the last before the back ends of %q, cannot be passed by", h.Name, name)
		}
	}
	l.sessions(&f.Hops[front], p.Hops[front], e)
	if vswitch := l.softwareSwitch(f, e.Destination); vswitch != nil {
		l.Wrong(vswitch, "write vswitch: false for this path",
			"the back ends of the load balancer %q are attached directly, without a software switch", name)
	}
}

// sessions refuses tests whose connections belong to one server, where a load balancer spreads
// them over several. Such trials failed by chance, for which the path was blamed.
func (l *loader) sessions(field *FileHop, h Hop, e *Experiment) {
	if h.Backends <= 1 || l.Stored {
		return
	}
	i := slices.IndexFunc(e.Tests, func(t Test) bool {
		k, _ := kind.Of(t.Spec.Kind)
		return k.OneServer || t.Spec.Tool == measurement.IPerf3
	})
	if i >= 0 {
		l.Wrong(&field.Type, "write backends: 1, or leave out the test", "the load balancer %q spreads the connections of test %q over %d back ends, and all of them belong to one", h.Name, e.Tests[i].Name, h.Backends)
	}
	i = slices.IndexFunc(e.Tests, func(t Test) bool {
		return t.Spec.SourcePort > 0 && kind.OverUDP(t.Spec) && !endsTune(t.Spec.Kind) // a load's own port is that of its streams
	})
	if i >= 0 {
		l.Wrong(&field.Type, "write backends: 1, or leave source_port out of the test, so that ports are tried",
			"the load balancer %q chooses among %d back ends by the source port and the protocol, and test %q needs one for both TCP and UDP from its source_port", h.Name, h.Backends, e.Tests[i].Name)
	}
}

// lastForwarder is the index of the last hop that forwards, -1 for none.
func lastForwarder(hops []Hop) int {
	for j := len(hops) - 1; j >= 0; j-- {
		if hops[j].Forwards() {
			return j
		}
	}
	return -1
}

// softwareSwitch is the field that puts a software switch between a path and an
// endpoint, nil if none does.
func (l *loader) softwareSwitch(f *FilePath, endpoint string) any {
	if l.Written(&f.VSwitch) {
		if !f.VSwitch {
			return nil
		}
		return &f.VSwitch
	}
	for i := range l.file.Endpoints {
		if end := &l.file.Endpoints[i]; string(end.Name) == endpoint && end.VSwitch {
			return &end.VSwitch
		}
	}
	return nil
}

// bypassBehind refuses to bypass the hop whose links lead to several back ends.
func (l *loader) bypassBehind(f *FilePath, p Path) {
	balancer, last := slices.IndexFunc(p.Hops, func(h Hop) bool { return h.Backends > 0 }), lastForwarder(p.Hops)
	if balancer < 0 || last <= balancer {
		return
	}
	for j := range f.Bypass {
		if string(f.Bypass[j]) == p.Hops[last].Name {
			l.Wrong(&f.Bypass[j], "put the hop before the load balancer",
				"hop %q, the last before the back ends of %q, cannot be passed by", f.Bypass[j], p.Hops[balancer].Name)
		}
	}
}

// sameBypass refuses a path that bypasses just what one before it does.
func (l *loader) sameBypass(i int, e *Experiment) {
	p := e.Paths[i]
	bypass := slices.Sorted(slices.Values(p.Bypass))
	for _, other := range e.Paths[:i] {
		if len(bypass) > 0 && other.VariantOf == p.VariantOf && slices.Equal(slices.Sorted(slices.Values(other.Bypass)), bypass) {
			l.Wrong(&l.file.Paths[i].Bypass, "bypass other hops, or leave one of the paths out",
				"path %q bypasses the same hops as path %q", p.Name, other.Name)
			return
		}
	}
}

// flowLimit refuses tests of more flows than a gateway lets pass: some of them
// would never be made. Of a crr test the failures are the result. Below WireGuard all flows of
// a pair are one.
func (l *loader) flowLimit(h *FileHop, tunnel *Tunnel, e *Experiment) {
	if h.FlowLimit == 0 || l.Stored {
		return
	}
	for _, t := range e.Tests {
		flows := kind.TrackedFlows(t.Spec)
		switch {
		case tunnel != nil && tunnel.Type == VXLAN:
			flows = kind.FlowsBelowVXLAN(t.Spec)
		case tunnel != nil && tunnel.Type == WireGuard:
			flows = 1
		}
		flows *= max(e.Pairs, 1)
		if flows > h.FlowLimit {
			l.Wrong(&h.FlowLimit, fmt.Sprintf("write at least %d, or give the test fewer flows", flows),
				"vnet-gateway %q lets %d flows pass, and test %q needs %d", h.Name, h.FlowLimit, t.Name, flows)
			return
		}
	}
}

// maxFlowsOfPairs bounds the flows of all pairs of a test together, of each of which a trial
// keeps what the kernel said at its end.
const maxFlowsOfPairs = 50_000

// flowsOfPairs refuses tests of several pairs that have too many flows together.
func (l *loader) flowsOfPairs(e *Experiment) {
	for _, t := range e.Tests {
		if each := kind.Connections(t.Spec); e.Pairs > 1 && each*e.Pairs > maxFlowsOfPairs {
			l.Wrong(&l.file.Pairs, fmt.Sprintf("write at most %d, or give the test fewer flows", max(maxFlowsOfPairs/each, 1)),
				"test %q has %d flows of each of %d pairs, and all pairs together have at most %d", t.Name, each, e.Pairs, maxFlowsOfPairs)
			return
		}
	}
}

// pairs refuses what joins one source with one destination in an experiment of
// several pairs.
func (l *loader) pairs(e *Experiment) {
	if e.Pairs <= 1 {
		return
	}
	refused := make(map[any]bool) // fields of several paths once
	for i := range l.file.Paths {
		f := &l.file.Paths[i]
		for _, end := range []string{e.Source, e.Destination} {
			if field := l.softwareSwitch(f, end); field != nil && !refused[field] {
				refused[field] = true
				l.Wrong(field, "write vswitch: false, or leave out the pairs", "a software switch stands between one host and its network, and there are %d pairs of hosts", e.Pairs)
			}
		}
		for j := range f.Hops {
			switch h, hop := e.Paths[i].Hops[j], &f.Hops[j]; {
			case h.Backends > 0:
				l.Wrong(&hop.Type, "leave out the hop or the pairs", "back ends stand for one destination, and there are %d pairs", e.Pairs)
			case h.ReplacesDestination():
				l.Wrong(&hop.Translate, "translate the source, or leave out the hop or the pairs", "a nat translates to one destination, and there are %d pairs", e.Pairs)
			}
		}
	}
}
