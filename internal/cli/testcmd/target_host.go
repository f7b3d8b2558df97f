package testcmd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
)

// Host are the flags that say how a host is reached.
type Host struct {
	Port      uint16
	TokenFile string
	Bind      string
	V4, V6    bool
	// lookUp finds addresses of a name, nil but in tests.
	lookUp func(ctx context.Context, network, name string) ([]netip.Addr, error)
}

// Define adds the flags to a command; their usages begin with a prefix.
func (h *Host) Define(c *cobra.Command, prefix string) {
	flags := c.Flags()
	flags.Uint16VarP(&h.Port, "port", "p", measurement.DefaultPort, prefix+"port of the server")
	flags.StringVar(&h.TokenFile, "token-file", os.Getenv(base.TokenFileEnv), prefix+"file that holds the server's token (environment: "+base.TokenFileEnv+")")
	flags.StringVarP(&h.Bind, "bind", "B", "", prefix+"local address to send from")
	flags.BoolVarP(&h.V4, "ipv4", "4", false, prefix+"use IPv4 only")
	flags.BoolVarP(&h.V6, "ipv6", "6", false, prefix+"use IPv6 only")
	c.MarkFlagsMutuallyExclusive("ipv4", "ipv6")
}

// Target is a host that the command line names.
type Target struct {
	Name string
	Port uint16
}

// SplitTarget takes HOST[%DEVICE][:PORT] apart. An address of IPv6 may be in brackets, and
// is where a port follows.
func SplitTarget(arg string, defaultPort uint16) (to Target, device string, err error) {
	to = Target{arg, defaultPort}
	if host, port, err := net.SplitHostPort(arg); err == nil {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return to, "", fmt.Errorf("%q is not a port", port)
		}
		to = Target{host, uint16(n)}
	} else if inner, found := strings.CutPrefix(arg, "["); found && strings.HasSuffix(inner, "]") {
		to.Name = strings.TrimSuffix(inner, "]")
	}
	host, device, found := strings.Cut(to.Name, "%")
	if !found {
		return to, "", nil
	}
	if device == "" {
		return to, "", fmt.Errorf("%s names no interface after its %%", arg)
	}
	if a, err := netip.ParseAddr(host); err != nil || !a.Is6() || !a.IsLinkLocalUnicast() {
		to.Name = host // only a link-local address keeps its zone
	}
	return to, device, nil
}

// onLink says that a name is an address that needs an interface, and has none.
func onLink(name string) bool {
	a, err := netip.ParseAddr(name)
	return err == nil && a.Is6() && a.IsLinkLocalUnicast() && a.Zone() == ""
}

// errOnLink asks for the interface of such an address.
func errOnLink(name string) error {
	return fmt.Errorf("%s is an address on a link; write its interface, too, as in %[1]s%%eth0", name)
}

// Check says what can be right on no network, before anything is sent.
func (h *Host) Check(to Target) error {
	if to.Name == "" {
		return errors.New("no host is named; write its name or address, with or without a port, as in 192.0.2.7:5201")
	}
	if to.Port == 0 {
		return errors.New("port 0 is none that a server has; write one from 1 to 65535")
	}
	if onLink(to.Name) {
		return errOnLink(to.Name)
	}
	var source netip.Addr
	if h.Bind != "" {
		var err error
		if source, err = parseAddress(h.Bind); err != nil {
			return err
		}
	}
	if err := h.oneVersion(source); err != nil {
		return err
	}
	target, err := netip.ParseAddr(to.Name)
	if err != nil {
		return nil // a name, which may have addresses of both
	}
	target = target.Unmap()
	if source.IsValid() && source.Is4() != target.Is4() {
		return fmt.Errorf("%v cannot send to %v, which is an address of the other version of IP", source, target)
	}
	return h.oneVersion(target)
}

// oneVersion says whether an address, if there is one, is of the version of IP that was
// asked for.
func (h *Host) oneVersion(a netip.Addr) error {
	if h.V6 && a.Is4() || h.V4 && a.Is6() {
		return fmt.Errorf("%v is an address of the other version of IP than was asked for; leave -4 and -6 out", a)
	}
	return nil
}

// resolve finds the address of a host, of the version of IP of the local address if there
// is one.
func (h *Host) resolve(ctx context.Context, to Target, source netip.Addr) (netip.AddrPort, error) {
	network := "ip"
	if err := h.oneVersion(source); err != nil {
		return netip.AddrPort{}, base.Usage(err)
	}
	switch {
	case h.V4, source.Is4():
		network = "ip4"
	case h.V6, source.Is6():
		network = "ip6"
	}
	addrs, err := h.find(ctx, network, to.Name)
	none, _ := errors.AsType[*net.AddrError](err) // it has addresses, and none of this version
	switch {
	case none != nil && network != "ip" && !source.IsValid():
		return netip.AddrPort{}, fmt.Errorf("%s has no IPv%s address; leave -%[2]s out if the other version of IP will do", to.Name, network[2:])
	case err != nil && network != "ip" && !source.IsValid():
		return netip.AddrPort{}, fmt.Errorf("find an IPv%s address of %s: %w; leave -%[1]s out if the other version of IP will do", network[2:], to.Name, err)
	case err != nil && source.IsValid():
		return netip.AddrPort{}, fmt.Errorf("find an address of %s to which %v can send: %w", to.Name, source, err)
	case err != nil:
		return netip.AddrPort{}, fmt.Errorf("find the address of %s: %w", to.Name, err)
	}
	at := addrs[0].Unmap()
	if literal, err := netip.ParseAddr(to.Name); err == nil {
		at = at.WithZone(literal.Zone()) // which the look-up leaves out
	}
	return netip.AddrPortFrom(at, to.Port), nil
}

func (h *Host) find(ctx context.Context, network, name string) ([]netip.Addr, error) {
	if h.lookUp != nil {
		return h.lookUp(ctx, network, name)
	}
	return net.DefaultResolver.LookupNetIP(ctx, network, name)
}

// others is what to say of a name at whose address no server was found, if it has one of the
// other version of IP.
func (h *Host) others(ctx context.Context, to Target, used netip.Addr) string {
	if _, err := netip.ParseAddr(to.Name); err == nil || h.V4 || h.V6 || h.Bind != "" {
		return "" // it was asked for
	}
	network, flag := "ip6", "-6"
	if used.Is6() {
		network, flag = "ip4", "-4"
	}
	ctx, cancel := context.WithTimeout(ctx, lookUpTime)
	defer cancel()
	all, err := h.find(ctx, network, to.Name)
	if err != nil || len(all) == 0 {
		return ""
	}
	return fmt.Sprintf(" The tests went to %v; %s has the address %v, too, which %s uses.", used, to.Name, all[0].Unmap(), flag)
}

// lookUpTime is how long an advice may wait for a name.
const lookUpTime = 2 * time.Second

// Prepare is what every test of a host has in common, sent from a local address unless
// that is empty.
func (h *Host) Prepare(ctx context.Context, to Target, bind string) (probe.Request, error) {
	var r probe.Request
	var err error
	if bind != "" {
		if r.Source, err = localAddress(bind); err != nil {
			return r, base.Usage(err)
		}
	}
	if r.Target, err = h.resolve(ctx, to, r.Source); err != nil {
		return r, err
	}
	if r.Token, err = base.ReadToken(h.TokenFile); err != nil {
		return r, err
	}
	return r, nil
}

// parseAddress reads a local address, which is none where that is left to the kernel.
func parseAddress(text string) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	if err != nil {
		return a, fmt.Errorf("%q is no address to send from; write one of this host, such as 10.0.5.2", text)
	}
	if a = a.Unmap(); a.IsUnspecified() {
		return netip.Addr{}, nil // the kernel's choice
	}
	return a, nil
}

// localAddress is an address of this host.
func localAddress(text string) (netip.Addr, error) {
	a, err := parseAddress(text)
	if err != nil || !a.IsValid() {
		return a, err
	}
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 0)))
	if err != nil {
		return a, fmt.Errorf("%s is no address of this host to send from: %w", text, err)
	}
	return a, c.Close()
}
