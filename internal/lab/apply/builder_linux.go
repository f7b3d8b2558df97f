// Package apply gives a plan to the kernel: network namespaces, links, addresses,
// routes, meters, filters. It also reads what the kernel counts in nodes.
package apply

import (
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/hopbench/hopbench/internal/lab/plan"
	"github.com/hopbench/hopbench/internal/lab/topology"
	"github.com/hopbench/hopbench/internal/linkem"
)

// Builder applies a plan. What it has made when it fails goes with the process.
type Builder struct {
	topology topology.Topology

	mu     sync.Mutex // guards what follows while operations run in parallel
	nodes  map[string]*Node
	ports  map[int][2]*linkem.Port // by link
	facts  []string
	secret map[netip.Prefix]tunnelKeys // by the inside of a tunnel
}

// New is a builder of t that has built nothing yet.
func New(t topology.Topology) *Builder {
	return &Builder{
		topology: t, nodes: make(map[string]*Node), ports: make(map[int][2]*linkem.Port),
		secret: make(map[netip.Prefix]tunnelKeys),
	}
}

// Node finds a node by name. The error names those that there are.
func (b *Builder) Node(name string) (*Node, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := b.nodes[name]; n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("the lab has no node %q; it has %s", name, strings.Join(b.topology.NodeNames(), ", "))
}

// TakePorts are the two devices of a link with impairments, which are the
// caller's from now on.
func (b *Builder) TakePorts(link int) [2]*linkem.Port {
	b.mu.Lock()
	defer b.mu.Unlock()
	ports := b.ports[link]
	delete(b.ports, link)
	return ports
}

// AddFact notes a sentence on what this machine did not allow as wished, once.
func (b *Builder) AddFact(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if fact := fmt.Sprintf(format, args...); !slices.Contains(b.facts, fact) {
		b.facts = append(b.facts, fact)
	}
}

// Facts are those sentences, with what nodes refused and what the topology
// leaves out.
func (b *Builder) Facts() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	facts := append(slices.Clone(b.facts), b.topology.Notes...)
	for _, spec := range b.topology.Nodes {
		if n := b.nodes[spec.Name]; n != nil {
			facts = append(facts, n.refused...)
		}
	}
	return facts
}

// parallel runs f for 0 to n-1 on some threads and returns the first error of
// the lowest index, so that the message does not depend on timing.
func parallel(n int, f func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	var mu sync.Mutex
	next := 0
	for range min(n, 2*runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= n {
					return
				}
				errs[i] = f(i)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Each applies f to the operations of one type, several at a time.
func Each[T plan.Operation](p plan.Plan, f func(T) error) error {
	var ops []T
	for _, o := range p {
		if o, is := o.(T); is {
			ops = append(ops, o)
		}
	}
	return parallel(len(ops), func(i int) error {
		if err := f(ops[i]); err != nil {
			return fmt.Errorf("%s: %w", ops[i], err)
		}
		return nil
	})
}

// Network applies everything of the plan but the processes.
func (b *Builder) Network(p plan.Plan) error {
	sysctls, configure := make(map[string][]plan.SetSysctl), make(map[string][]plan.Operation)
	functions := make(map[string][]plan.AddFunction)
	for _, o := range p {
		switch o := o.(type) {
		case plan.SetSysctl:
			sysctls[o.Node] = append(sysctls[o.Node], o)
		case plan.AddFunction:
			functions[o.Node] = append(functions[o.Node], o)
		case plan.JoinSwitch:
			configure[o.End.Switch] = append(configure[o.End.Switch], o)
		case plan.JoinEgress:
			configure[o.Node] = append(configure[o.Node], o)
		case plan.SetAddress:
			configure[o.Node] = append(configure[o.Node], o)
		case plan.MeterRate:
			configure[o.Node] = append(configure[o.Node], o)
		case plan.AddRoute:
			configure[o.Node] = append(configure[o.Node], o)
		}
	}
	nodes := b.topology.Nodes
	interfaces := make([]map[string]int, len(nodes)) // index by name, of each node
	for _, stage := range []func() error{
		func() error {
			return Each(p, func(o plan.CreateNode) error {
				n, err := createNode(o.Spec, sysctls[o.Spec.Name])
				b.mu.Lock()
				defer b.mu.Unlock()
				b.nodes[o.Spec.Name] = n
				return err
			})
		},
		func() error { return Each(p, b.shareEgress) },
		func() error { return Each(p, b.addLink) },
		func() error { return Each(p, b.addTunnel) },
		func() error {
			return parallel(len(nodes), func(i int) error {
				interfaces[i] = make(map[string]int)
				for _, o := range configure[nodes[i].Name] {
					if err := b.nodes[nodes[i].Name].configure(o, interfaces[i]); err != nil {
						return fmt.Errorf("%s: %w", o, explainKernel(err))
					}
				}
				return nil
			})
		},
		func() error { return explainKernel(b.enterNeighbours()) },
		func() error {
			return parallel(len(nodes), func(i int) error {
				for _, o := range functions[nodes[i].Name] {
					if err := b.addFunction(o); err != nil {
						return fmt.Errorf("%s: %w", o, err)
					}
				}
				return nil
			})
		},
	} {
		if err := stage(); err != nil {
			return err
		}
	}
	deadline := time.Now().Add(linkDeadline)
	return parallel(len(nodes), func(i int) error { return b.nodes[nodes[i].Name].awaitLinks(interfaces[i], deadline) })
}

// configure applies one operation to the node; indexes remembers interfaces.
func (n *Node) configure(o plan.Operation, indexes map[string]int) error {
	index := func(name string) (int, error) {
		if i, known := indexes[name]; known {
			return i, nil
		}
		link, err := n.handle.LinkByName(name)
		if err != nil {
			return 0, fmt.Errorf("find interface %s: %w", name, err)
		}
		indexes[name] = link.Attrs().Index
		return link.Attrs().Index, nil
	}
	switch o := o.(type) {
	case plan.JoinSwitch:
		return n.joinSwitch(o, indexes)
	case plan.JoinEgress:
		return n.joinEgress(o, indexes)
	case plan.SetAddress:
		i, err := index(o.Interface)
		if err != nil {
			return err
		}
		return n.setAddress(o, i)
	case plan.MeterRate:
		i, err := index(o.Interface)
		if err != nil {
			return err
		}
		return n.handle.QdiscReplace(tbf(i, o.Bucket))
	case plan.AddRoute:
		i, err := index(o.Route.Interface)
		if err != nil {
			return err
		}
		return n.addRoute(o, i)
	}
	return fmt.Errorf("%T configures no node", o)
}

func tbf(index int, bucket plan.TokenBucket) *netlink.Tbf {
	return &netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index, Parent: netlink.HANDLE_ROOT, Handle: netlink.MakeHandle(1, 0)},
		Rate:       bucket.BytesPerSecond,
		Limit:      bucket.LimitBytes,
		// The kernel takes the bucket's depth as the time it lasts.
		Buffer: netlink.Xmittime(bucket.BytesPerSecond, bucket.BurstBytes),
	}
}
