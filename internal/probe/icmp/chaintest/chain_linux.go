package chaintest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/testutil"
)

// Chain is a source, routers and a destination, in that order.
type Chain struct{ Nodes []*Node }

// Node is one network namespace.
type Node struct {
	Name   string
	ns     netns.NsHandle
	handle *netlink.Handle
}

// New builds a chain and takes it down with the test.
func New(t testing.TB, routers int) *Chain {
	t.Helper()
	testutil.Need(t, testutil.Entered(), "user and network namespaces (kernel.unprivileged_userns_clone, user.max_user_namespaces, AppArmor)")
	c := &Chain{}
	for i := range routers + 2 {
		name := fmt.Sprintf("r%d", i)
		switch i {
		case 0:
			name = "source"
		case routers + 1:
			name = "destination"
		}
		c.Nodes = append(c.Nodes, newNode(t, name))
	}
	for i := range routers + 1 {
		c.link(t, i)
	}
	for i, n := range c.Nodes {
		c.route(t, i, n)
	}
	c.wait(t)
	return c
}

// Source is the first node.
func (c *Chain) Source() *Node { return c.Nodes[0] }

// Router is the i-th router, from 1.
func (c *Chain) Router(i int) *Node { return c.Nodes[i] }

// Destination is the last node.
func (c *Chain) Destination() *Node { return c.Nodes[len(c.Nodes)-1] }

// Hop is the address that node i answers with to the source.
func (c *Chain) Hop(i int, v6 bool) netip.Addr { return address(i-1, 2, v6).Addr() }

// Target is the destination's address.
func (c *Chain) Target(v6 bool) netip.Addr { return c.Hop(len(c.Nodes)-1, v6) }

func address(link, host int, v6 bool) netip.Prefix {
	if v6 {
		return netip.MustParsePrefix(fmt.Sprintf("fd77:%d::%d/64", link, host))
	}
	return netip.MustParsePrefix(fmt.Sprintf("10.77.%d.%d/24", link, host))
}

func newNode(t testing.TB, name string) *Node {
	t.Helper()
	n := &Node{Name: name}
	err := testutil.OnThread(func() (err error) {
		n.ns, err = netns.New()
		return err
	})
	if err == nil {
		n.handle, err = netlink.NewHandleAt(n.ns)
	}
	if err != nil {
		t.Fatalf("make node %s: %v", name, err)
	}
	t.Cleanup(func() {
		n.handle.Close()
		if err := n.ns.Close(); err != nil {
			t.Errorf("close namespace of %s: %v", name, err)
		}
	})
	for key, value := range map[string]string{
		"net.ipv4.ip_forward":              "1",
		"net.ipv6.conf.all.forwarding":     "1",
		"net.ipv6.conf.default.accept_dad": "0",
		"net.ipv4.conf.all.rp_filter":      "0",
		"net.ipv4.conf.default.rp_filter":  "0",
		"net.ipv4.icmp_ratelimit":          "0",
		"net.ipv6.icmp.ratelimit":          "0",
	} {
		n.Sysctl(t, key, value)
	}
	n.liftLimit(t)
	n.up(t, "lo")
	return n
}

func (n *Node) up(t testing.TB, name string) netlink.Link {
	t.Helper()
	link, err := n.handle.LinkByName(name)
	if err == nil {
		err = n.handle.LinkSetUp(link)
	}
	if err != nil {
		t.Fatalf("%s: set %s up: %v", n.Name, name, err)
	}
	return link
}

// link makes link i, between nodes i and i+1.
func (c *Chain) link(t testing.TB, i int) {
	t.Helper()
	var near, far []netip.Prefix
	for _, v6 := range []bool{false, true} {
		near, far = append(near, address(i, 1, v6)), append(far, address(i, 2, v6))
	}
	connect(t, end{c.Nodes[i], "right", near}, end{c.Nodes[i+1], "left", far})
}

// end is one end of a link.
type end struct {
	node      *Node
	device    string
	addresses []netip.Prefix
}

// connect makes a link between two nodes.
func connect(t testing.TB, near, far end) {
	t.Helper()
	veth := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: near.device}, PeerName: far.device, PeerNamespace: netlink.NsFd(int(far.node.ns)),
	}
	if err := near.node.handle.LinkAdd(veth); err != nil {
		t.Fatalf("link %s to %s: %v", near.node.Name, far.node.Name, err)
	}
	for _, e := range []end{near, far} {
		// A neighbour request that is lost while links come up costs this.
		for _, family := range []string{"ipv4", "ipv6"} {
			e.node.Sysctl(t, "net."+family+".neigh."+e.device+".retrans_time_ms", "20")
		}
		e.node.up(t, e.device)
	}
	for _, e := range []end{near, far} {
		e.node.waitUp(t, e.device)
		for _, p := range e.addresses {
			e.node.addAddress(t, e.device, p)
		}
	}
}

// waitUp waits until the kernel's link watch has seen the other end come up:
// what is sent before is dropped, and a lost neighbour request costs a second.
func (n *Node) waitUp(t testing.TB, device string) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		link, err := n.handle.LinkByName(device)
		if err == nil && link.Attrs().OperState == netlink.OperUp {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %s does not come up: %v", n.Name, device, err)
		}
		time.Sleep(time.Millisecond) // between two looks
	}
}

func (n *Node) addAddress(t testing.TB, device string, p netip.Prefix) {
	t.Helper()
	link, err := n.handle.LinkByName(device)
	if err == nil {
		ip := &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
		addr := &netlink.Addr{IPNet: ip}
		if p.Addr().Is6() {
			addr.Flags = unix.IFA_F_NODAD
		}
		err = n.handle.AddrAdd(link, addr)
	}
	if err != nil {
		t.Fatalf("%s: add %v to %s: %v", n.Name, p, device, err)
	}
}

// route gives node i its routes: what is not nearer lies to the right.
func (c *Chain) route(t testing.TB, i int, n *Node) {
	t.Helper()
	last := len(c.Nodes) - 1
	for _, v6 := range []bool{false, true} {
		everything := netip.MustParsePrefix("0.0.0.0/0")
		if v6 {
			everything = netip.MustParsePrefix("::/0")
		}
		if i == last {
			n.AddRoute(t, everything, address(i-1, 1, v6).Addr(), 0)
			continue
		}
		if i < last-1 {
			n.AddRoute(t, everything, address(i, 2, v6).Addr(), 0)
		}
		for nearer := range i - 1 {
			n.AddRoute(t, address(nearer, 0, v6).Masked(), address(i-1, 1, v6).Addr(), 0)
		}
	}
}

// AddRoute adds a route through a gateway or, without one, of a type such as
// unix.RTN_BLACKHOLE.
func (n *Node) AddRoute(t testing.TB, to netip.Prefix, gateway netip.Addr, typ int) {
	t.Helper()
	r := &netlink.Route{
		Dst:  &net.IPNet{IP: to.Addr().AsSlice(), Mask: net.CIDRMask(to.Bits(), to.Addr().BitLen())},
		Type: typ,
	}
	if gateway.IsValid() {
		r.Gw = gateway.AsSlice()
	}
	if err := n.handle.RouteAdd(r); err != nil {
		t.Fatalf("%s: route %v: %v", n.Name, to, err)
	}
}

// Sysctl sets a setting of the node.
func (n *Node) Sysctl(t testing.TB, key, value string) {
	t.Helper()
	n.Do(t, func() {
		path := filepath.Join("/proc/sys", strings.ReplaceAll(key, ".", "/"))
		if err := os.WriteFile(path, []byte(value), 0); err != nil {
			t.Errorf("%s: set %s: %v", n.Name, key, err)
		}
	})
}

// liftLimit lifts the limit on all ICMP messages of the node together. Before
// Linux 6.12 it is one for the whole host, and not a node's to lift.
func (n *Node) liftLimit(t testing.TB) {
	t.Helper()
	n.Do(t, func() {
		for _, name := range []string{"icmp_msgs_per_sec", "icmp_msgs_burst"} {
			err := os.WriteFile("/proc/sys/net/ipv4/"+name, []byte("1000000"), 0)
			if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission) {
				t.Errorf("%s: set %s: %v", n.Name, name, err)
			}
		}
	})
}

// Silence keeps the node from sending ICMP errors, and lets everything else
// pass: the rate limit becomes one message in centuries.
func (n *Node) Silence(t testing.TB) {
	t.Helper()
	n.Sysctl(t, "net.ipv4.icmp_ratelimit", "2147483647")
	n.Sysctl(t, "net.ipv6.icmp.ratelimit", "2147483647")
}

// MTU sets the MTU of one of the node's devices, "left" or "right".
func (n *Node) MTU(t testing.TB, device string, mtu int) {
	t.Helper()
	link, err := n.handle.LinkByName(device)
	if err == nil {
		err = n.handle.LinkSetMTU(link, mtu)
	}
	if err != nil {
		t.Fatalf("%s: set MTU of %s: %v", n.Name, device, err)
	}
}

// Do runs f on a thread inside the node. f must not start goroutines that open
// sockets: they would be elsewhere.
func (n *Node) Do(t testing.TB, f func()) {
	t.Helper()
	err := testutil.OnThread(func() error {
		err := netns.Set(n.ns)
		if err == nil {
			f()
		}
		return err
	})
	if err != nil {
		t.Fatalf("enter %s: %v", n.Name, err)
	}
}

// DoUnprivileged is Do without the right to open raw sockets.
func (n *Node) DoUnprivileged(t testing.TB, f func()) {
	t.Helper()
	n.Do(t, func() {
		if err := dropRaw(); err != nil {
			t.Errorf("give up CAP_NET_RAW: %v", err)
			return
		}
		f()
	})
}

func dropRaw() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	data[0].Effective &^= 1 << unix.CAP_NET_RAW
	data[0].Permitted &^= 1 << unix.CAP_NET_RAW
	return unix.Capset(&header, &data[0])
}

// Output runs a program inside the node and returns what it printed. A status
// other than zero is an error of the program, returned with its output.
func (n *Node) Output(t testing.TB, name string, args ...string) (string, error) {
	t.Helper()
	path, lookErr := exec.LookPath(name)
	testutil.Need(t, lookErr == nil, name+" (Debian: iputils-ping, traceroute, tcptraceroute, iproute2)")
	var out []byte
	var err error
	n.Do(t, func() { out, err = exec.Command(path, args...).CombinedOutput() })
	return string(out), err
}

// wait polls until the destination refuses TCP connections of the source, over
// both families: links come up, and neighbours are found, in their own time.
func (c *Chain) wait(t testing.TB) {
	t.Helper()
	for _, v6 := range []bool{false, true} {
		c.Source().waitFor(t, c.Target(v6))
	}
}

func (n *Node) waitFor(t testing.TB, target netip.Addr) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		var err error
		n.Do(t, func() {
			dialer := net.Dialer{Timeout: 200 * time.Millisecond}
			var conn net.Conn
			if conn, err = dialer.Dial("tcp", netip.AddrPortFrom(target, 1).String()); err == nil {
				err = conn.Close()
			}
		})
		if errors.Is(err, syscall.ECONNREFUSED) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no traffic from %s to %v: %v", n.Name, target, err)
		}
	}
}
