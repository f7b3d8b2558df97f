package apply

import (
	"errors"
	"fmt"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/lab/plan"
	"github.com/hopbench/hopbench/internal/lab/topology"
	"github.com/hopbench/hopbench/internal/linkem"
)

// linkDeadline is how long links may take to work once both ends are up. Linux
// before 6.10 may leave it for a second (net/core/link_watch.c).
const linkDeadline = 10 * time.Second

// awaitLinks returns when every interface of the node sends. The kernel starts
// the queue of an interface that came up before its peer in the background, and
// drops what is sent before. Asking for one interface, unlike a dump of all,
// makes newer kernels do it at once (linkwatch_sync_dev in rtnl_getlink).
func (n *Node) awaitLinks(interfaces map[string]int, deadline time.Time) error {
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

func (b *Builder) addLink(o plan.AddLink) error {
	l := o.Link
	ends, err := b.behindSwitches(o)
	if err != nil {
		return explainKernel(err)
	}
	if l.Emulation == nil {
		return explainKernel(addVeth(b.nodes[ends[0].Node], ends[0].Interface, int(b.nodes[ends[1].Node].ns.Fd()), ends[1].Interface, l.EffectiveMTU()))
	}
	config := *l.Emulation
	config.MTU = l.EffectiveMTU()
	var ports [2]*linkem.Port
	for i, e := range ends {
		if ports[i], err = b.openPort(o.Index, i, e, config); err != nil {
			break
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ports[o.Index] = ports
	return explainKernel(err)
}

// openPort makes the device of one end of a link emulator: a TAP device in the node, or
// where the machine has none, a veth pair whose far end is in the supervisor's
// own namespace.
func (b *Builder) openPort(link, side int, e topology.End, config linkem.Config) (*linkem.Port, error) {
	n := b.nodes[e.Node]
	var port *linkem.Port
	err := n.Within(func() (err error) {
		port, err = linkem.OpenTAP(e.Interface, config)
		return err
	})
	if err == nil || !tapUnusable(err) {
		return port, err
	}
	b.AddFact("link emulators use packet sockets on veth pairs, because TAP devices are not usable here (%v)", err)
	own, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	defer own.Close()
	far := fmt.Sprintf("link%d.%d", link, side)
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.MTU = far, config.MTU
	pair := netlink.NewVeth(attributes)
	pair.PeerName, pair.PeerNamespace = e.Interface, netlink.NsFd(n.ns.Fd())
	if err := own.LinkAdd(pair); err != nil {
		return nil, fmt.Errorf("make veth pair %s: %w", far, err)
	}
	if config.NoOffload { // which linkem.OpenPacket leaves to the near end
		near, err := n.handle.LinkByName(e.Interface)
		if err == nil {
			err = n.handle.LinkSetGSOMaxSegs(near, 1)
		}
		if err != nil {
			return nil, fmt.Errorf("switch segmentation of %s off: %w", e.Interface, err)
		}
	}
	if err := own.LinkSetUp(pair); err != nil {
		return nil, fmt.Errorf("bring %s up: %w", far, err)
	}
	return linkem.OpenPacket(far)
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
func addVeth(a *Node, nameA string, nsB int, nameB string, mtu int) error {
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.MTU = nameA, mtu
	pair := netlink.NewVeth(attributes)
	pair.PeerName, pair.PeerNamespace, pair.PeerMTU = nameB, netlink.NsFd(nsB), uint32(mtu)
	return a.handle.LinkAdd(pair)
}
