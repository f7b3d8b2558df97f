package linktest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/linkem"
	"github.com/hopbench/hopbench/internal/testutil"
)

// Addresses of the two ends of a Pair.
var (
	addresses4 = [2]netip.Addr{netip.MustParseAddr("10.99.0.1"), netip.MustParseAddr("10.99.0.2")}
	addresses6 = [2]netip.Addr{netip.MustParseAddr("fd99::1"), netip.MustParseAddr("fd99::2")}
)

// Pair is two network namespaces, each with one device called "wire0" that is up and
// has addresses, and the ports of a link emulator that is to join them.
//
//	namespace 0            process that runs the link emulator           namespace 1
//	wire0 (TAP)  ========  Ports[0]  <- link emulator ->  Ports[1]  ========  wire0 (TAP)
//	wire0 (veth) -- far0 = Ports[0]  <- link emulator ->  Ports[1] = far1 -- wire0 (veth)
type Pair struct {
	Ports      [2]*linkem.Port
	namespaces [2]netns.NsHandle
	far        netns.NsHandle // of the far ends of veth pairs
}

const device = "wire0"

// NewPair makes namespaces, devices and ports of one kind.
func NewPair(kind linkem.Kind, cfg linkem.Config) (pair *Pair, err error) {
	p := &Pair{namespaces: [2]netns.NsHandle{netns.None(), netns.None()}, far: netns.None()}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	for i := range p.namespaces {
		if p.namespaces[i], err = newNamespace(); err != nil {
			return nil, err
		}
	}
	if kind == linkem.Packet {
		if p.far, err = newNamespace(); err != nil {
			return nil, err
		}
	}
	for i := range p.namespaces {
		if kind == linkem.TAP {
			err = p.openTAP(i, cfg)
		} else {
			err = p.openVeth(i, cfg)
		}
		if err != nil {
			return nil, err
		}
		if err = p.configure(i, cfg); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Close closes the ports, unless a Run has done so, and lets the namespaces go.
func (p *Pair) Close() error {
	var errs []error
	for _, port := range p.Ports {
		if port != nil {
			errs = append(errs, port.Close())
		}
	}
	for _, ns := range []*netns.NsHandle{&p.namespaces[0], &p.namespaces[1], &p.far} {
		if ns.IsOpen() {
			errs = append(errs, ns.Close())
		}
	}
	return errors.Join(errs...)
}

// Address4 and Address6 are the addresses of an end.
func (p *Pair) Address4(end int) netip.Addr { return addresses4[end] }

// Address6 is the IPv6 address of an end.
func (p *Pair) Address6(end int) netip.Addr { return addresses6[end] }

// Do calls f in a thread that is in an end's namespace. Sockets that f opens
// stay there.
func (p *Pair) Do(end int, f func() error) error { return do(p.namespaces[end], f) }

// RemoveDevice deletes an end's device under the link emulator.
func (p *Pair) RemoveDevice(end int) error {
	return p.with(end, func(h *netlink.Handle, link netlink.Link) error { return h.LinkDel(link) })
}

// SetDevice sets an end's device up or down.
func (p *Pair) SetDevice(end int, up bool) error {
	return p.with(end, func(h *netlink.Handle, link netlink.Link) error {
		if up {
			return h.LinkSetUp(link)
		}
		return h.LinkSetDown(link)
	})
}

func (p *Pair) with(end int, f func(*netlink.Handle, netlink.Link) error) error {
	h, err := netlink.NewHandleAt(p.namespaces[end])
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer h.Close()
	link, err := h.LinkByName(device)
	if err != nil {
		return fmt.Errorf("find %s: %w", device, err)
	}
	return f(h, link)
}

func (p *Pair) openTAP(end int, cfg linkem.Config) error {
	return p.Do(end, func() (err error) {
		p.Ports[end], err = linkem.OpenTAP(device, cfg)
		return err
	})
}

func (p *Pair) openVeth(end int, cfg linkem.Config) error {
	h, err := netlink.NewHandleAt(p.far)
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer h.Close()
	far := fmt.Sprintf("far%d", end)
	attributes := netlink.NewLinkAttrs()
	attributes.Name = far
	attributes.MTU = cfg.MTU
	veth := &netlink.Veth{LinkAttrs: attributes, PeerName: device, PeerNamespace: netlink.NsFd(p.namespaces[end])}
	if err := h.LinkAdd(veth); err != nil {
		return fmt.Errorf("make veth pair: %w", err)
	}
	if err := h.LinkSetUp(veth); err != nil {
		return err
	}
	return do(p.far, func() (err error) {
		p.Ports[end], err = linkem.OpenPacket(far)
		return err
	})
}

func (p *Pair) configure(end int, cfg linkem.Config) error {
	return p.with(end, func(h *netlink.Handle, link netlink.Link) error {
		if cfg.MTU != 0 {
			if err := h.LinkSetMTU(link, cfg.MTU); err != nil {
				return err
			}
		}
		if cfg.NoOffload && p.far.IsOpen() {
			// The near end of a veth pair is what must cut.
			if err := h.LinkSetGSOMaxSegs(link, 1); err != nil {
				return fmt.Errorf("switch segmentation of %s off: %w", device, err)
			}
		}
		for _, a := range []struct {
			address netip.Addr
			bits    int
			flags   int
		}{{addresses4[end], 24, 0}, {addresses6[end], 64, unix.IFA_F_NODAD}} {
			ipnet := &net.IPNet{IP: a.address.AsSlice(), Mask: net.CIDRMask(a.bits, a.address.BitLen())}
			if err := h.AddrAdd(link, &netlink.Addr{IPNet: ipnet, Flags: a.flags}); err != nil {
				return fmt.Errorf("give %s the address %s: %w", device, a.address, err)
			}
		}
		return h.LinkSetUp(link)
	})
}

func newNamespace() (netns.NsHandle, error) {
	handle := netns.None()
	err := testutil.OnThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make network namespace: %w", os.NewSyscallError("unshare", err))
		}
		var err error
		handle, err = netns.Get()
		return err
	})
	return handle, err
}

func do(ns netns.NsHandle, f func() error) error {
	return testutil.OnThread(func() error {
		if err := netns.Set(ns); err != nil {
			return fmt.Errorf("enter network namespace: %w", err)
		}
		return f()
	})
}
