package lab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/cable"
)

// builder applies a plan. What it has made when it fails goes with the
// supervisor.
type builder struct {
	topology Topology
	nodes    map[string]*node
	ports    map[int][2]*cable.Port // by link
	facts    []string
	// withoutTAP says that the fact about it is already among facts.
	withoutTAP bool

	mu sync.Mutex // guards the maps and facts while operations run in parallel
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

// network applies everything of the plan but the processes.
func (b *builder) network(plan Plan) error {
	sysctls := make(map[string][]Operation)
	configure := make(map[string][]Operation)
	var meters, links, tunnels, filters, stopwatches, divisions []Operation
	for _, o := range plan {
		switch o.Verb {
		case SetSysctl:
			sysctls[o.Node] = append(sysctls[o.Node], o)
		case AddLink:
			links = append(links, o)
		case ShareEgress:
			meters = append(meters, o)
		case AddTunnel:
			tunnels = append(tunnels, o)
		case JoinSwitch, JoinEgress, SetAddress, MeterRate, AddRoute:
			configure[o.Node] = append(configure[o.Node], o)
		case SetFilter:
			filters = append(filters, o)
		case TimeWork:
			stopwatches = append(stopwatches, o)
		case SpreadFlow, Balance:
			divisions = append(divisions, o)
		}
	}
	nodes := b.topology.Nodes
	err := parallel(len(nodes), func(i int) error {
		n, err := createNode(nodes[i], sysctls[nodes[i].Name])
		if err != nil {
			return fmt.Errorf("node %s: %w", nodes[i].Name, err)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.nodes[nodes[i].Name] = n
		return nil
	})
	if err != nil {
		return err
	}
	if err := b.shareEgress(meters); err != nil {
		return err
	}
	err = parallel(len(links), func(i int) error {
		if err := b.addLink(links[i]); err != nil {
			return fmt.Errorf("%s: %w", links[i], explainKernel(err))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := b.addTunnels(tunnels); err != nil {
		return err
	}
	interfaces := make([]map[string]int, len(nodes)) // index by name, of each node
	err = parallel(len(nodes), func(i int) error {
		n := b.nodes[nodes[i].Name]
		indexes := make(map[string]int)
		interfaces[i] = indexes
		for _, o := range configure[nodes[i].Name] {
			if err := n.configure(o, indexes); err != nil {
				return fmt.Errorf("%s: %w", o, explainKernel(err))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = parallel(len(filters), func(i int) error {
		if err := b.nodes[filters[i].Node].applyFilter(filters[i].Filter); err != nil {
			return fmt.Errorf("%s: %w", filters[i], err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := b.timeWork(stopwatches); err != nil {
		return err
	}
	if err := b.enterNeighbours(); err != nil {
		return explainKernel(err)
	}
	if err := parallel(len(divisions), func(i int) error { return b.divide(divisions[i]) }); err != nil {
		return err
	}
	deadline := time.Now().Add(linkDeadline)
	return parallel(len(nodes), func(i int) error { return b.nodes[nodes[i].Name].awaitLinks(interfaces[i], deadline) })
}

// linkDeadline is how long links may take to work once both ends are up. Linux
// before 6.10 may leave it for a second (net/core/link_watch.c).
const linkDeadline = 10 * time.Second

// awaitLinks returns when every interface of the node sends. The kernel starts
// the queue of an interface that came up before its peer in the background, and
// drops what is sent before. Asking for one interface, unlike a dump of all,
// makes newer kernels do it at once (linkwatch_sync_dev in rtnl_getlink).
func (n *node) awaitLinks(interfaces map[string]int, deadline time.Time) error {
	for name, index := range interfaces {
		for pause := 200 * time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
			link, err := n.handle.LinkByIndex(index)
			if err != nil {
				return fmt.Errorf("node %s: look at interface %s: %w", n.spec.Name, name, err)
			}
			if link.Attrs().RawFlags&unix.IFF_RUNNING != 0 {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("node %s: interface %s did not come up within %s", n.spec.Name, name, linkDeadline)
			}
			time.Sleep(pause)
		}
	}
	return nil
}

func (b *builder) addLink(o Operation) error {
	l := b.topology.Links[o.Link]
	ends, err := b.behindSwitches(o.Link)
	if err != nil {
		return err
	}
	if l.Cable == nil {
		return addVeth(b.nodes[ends[0].Node], ends[0].Interface, int(b.nodes[ends[1].Node].ns.Fd()), ends[1].Interface, l.mtu())
	}
	config := *l.Cable
	config.MTU = l.mtu()
	var ports [2]*cable.Port
	for i, e := range ends {
		if ports[i], err = b.openPort(o.Link, i, e, config); err != nil {
			break
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ports[o.Link] = ports
	return err
}

// openPort makes the device of one end of a cable: a TAP device in the node, or
// where the machine has none, a veth pair whose far end is in the supervisor's
// own namespace.
func (b *builder) openPort(link, side int, e End, config cable.Config) (*cable.Port, error) {
	n := b.nodes[e.Node]
	var port *cable.Port
	err := n.within(func() (err error) {
		port, err = cable.OpenTAP(e.Interface, config)
		return err
	})
	if err == nil || !tapUnusable(err) {
		return port, err
	}
	b.mu.Lock()
	if !b.withoutTAP {
		b.withoutTAP = true
		b.facts = append(b.facts, fmt.Sprintf("cables use packet sockets on veth pairs, because TAP devices are not usable here (%v)", err))
	}
	b.mu.Unlock()
	own, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	defer own.Close()
	far := fmt.Sprintf("cable%d.%d", link, side)
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.MTU = far, config.MTU
	pair := netlink.NewVeth(attributes)
	pair.PeerName, pair.PeerNamespace = e.Interface, netlink.NsFd(n.ns.Fd())
	if err := own.LinkAdd(pair); err != nil {
		return nil, fmt.Errorf("make veth pair %s: %w", far, err)
	}
	if err := own.LinkSetUp(pair); err != nil {
		return nil, fmt.Errorf("bring %s up: %w", far, err)
	}
	return cable.OpenPacket(far)
}

// tapUnusable tells that the machine offers no TAP device: no driver, no device
// node, or no right to use it.
func tapUnusable(err error) bool {
	for _, e := range []error{unix.ENOENT, unix.ENODEV, unix.ENXIO, unix.EACCES, unix.EPERM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// addVeth makes a pair with one message, each end in its namespace at once.
func addVeth(a *node, nameA string, nsB int, nameB string, mtu int) error {
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.MTU = nameA, mtu
	pair := netlink.NewVeth(attributes)
	pair.PeerName, pair.PeerNamespace, pair.PeerMTU = nameB, netlink.NsFd(nsB), uint32(mtu)
	return a.handle.LinkAdd(pair)
}

// configure applies one operation to the node; indexes remembers interfaces.
func (n *node) configure(o Operation, indexes map[string]int) error {
	switch o.Verb {
	case JoinSwitch:
		return n.joinSwitch(o, indexes)
	case JoinEgress:
		return n.joinEgress(o, indexes)
	}
	name := o.Interface
	if o.Verb == AddRoute {
		name = o.Route.Interface
	}
	index, known := indexes[name]
	if !known {
		link, err := n.handle.LinkByName(name)
		if err != nil {
			return fmt.Errorf("find interface %s: %w", name, err)
		}
		index = link.Attrs().Index
		indexes[name] = index
	}
	switch o.Verb {
	case SetAddress:
		return n.setAddress(o, index)
	case MeterRate:
		return n.handle.QdiscReplace(tbf(index, o.bucket))
	default:
		return n.addRoute(o, index)
	}
}

func (n *node) setAddress(o Operation, index int) error {
	device := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index, Name: o.Interface}}
	addr := &netlink.Addr{IPNet: ipNet(o.Address.Addr(), o.Address.Bits())}
	if o.NoPrefixRoute {
		addr.Flags = unix.IFA_F_NOPREFIXROUTE
	}
	if err := n.handle.AddrAdd(device, addr); err != nil {
		return err
	}
	if err := n.handle.LinkSetUp(device); err != nil {
		return fmt.Errorf("bring it up: %w", err)
	}
	return nil
}

func tbf(index int, bucket tokenBucket) *netlink.Tbf {
	return &netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index, Parent: netlink.HANDLE_ROOT, Handle: netlink.MakeHandle(1, 0)},
		Rate:       bucket.BytesPerSecond,
		Limit:      bucket.LimitBytes,
		// The kernel takes the bucket's depth as the time it lasts.
		Buffer: netlink.Xmittime(bucket.BytesPerSecond, bucket.BurstBytes),
	}
}

// kernelRoute is r as the kernel takes it, over the interface of that index.
func kernelRoute(r Route, congestion string, index int) netlink.Route {
	route := netlink.Route{
		LinkIndex: index,
		Dst:       ipNet(r.Destination.Addr(), r.Destination.Bits()),
		Congctl:   congestion,
	}
	if r.Via.IsValid() {
		route.Gw = r.Via.AsSlice()
	} else {
		route.Scope = netlink.SCOPE_LINK
	}
	if r.Source.IsValid() {
		route.Src = r.Source.AsSlice()
	}
	return route
}

func (n *node) addRoute(o Operation, index int) error {
	route := kernelRoute(o.Route, o.Congestion, index)
	err := n.handle.RouteAdd(&route)
	if errors.Is(err, unix.EINVAL) && o.Congestion != "" {
		// What the kernel says of an algorithm that it does not have.
		route.Congctl = ""
		if n.handle.RouteAdd(&route) == nil {
			return fmt.Errorf("this kernel has no congestion control %q (see net.ipv4.tcp_available_congestion_control): %w", o.Congestion, err)
		}
	}
	return err
}

func ipNet(a netip.Addr, bits int) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(bits, a.BitLen())}
}
