package lab

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab/labtest"
	"github.com/hopbench/hopbench/internal/lab/message"
	"github.com/hopbench/hopbench/internal/lab/topology"
	"github.com/hopbench/hopbench/internal/testutil"
)

// linkShown is what `ip -d -j link` says of an interface.
type linkShown struct {
	Name     string `json:"ifname"`
	MTU      int    `json:"mtu"`
	Master   string `json:"master"`
	LinkInfo struct {
		Kind string `json:"info_kind"`
		Data struct {
			ID       int    `json:"id"`
			Remote   string `json:"remote"`
			Local    string `json:"local"`
			TTL      int    `json:"ttl"`
			Port     int    `json:"port"`
			Learning bool   `json:"learning"`
		} `json:"info_data"`
		SlaveData struct {
			State string `json:"state"`
		} `json:"info_slave_data"`
	} `json:"linkinfo"`
}

func linksShown(t *testing.T, l *Lab, node string) map[string]linkShown {
	t.Helper()
	var all []linkShown
	testutil.OK(t, json.Unmarshal([]byte(must(t, l, node, "ip", "-d", "-j", "link")), &all))
	links := make(map[string]linkShown)
	for _, s := range all {
		links[s.Name] = s
	}
	return links
}

func counted(t *testing.T, l *Lab, node, name string) InterfaceCounters {
	t.Helper()
	for _, i := range countersOf(t, l, node).Interfaces {
		if i.Name == name {
			return i
		}
	}
	t.Fatalf("no counters of %s:%s", node, name)
	return InterfaceCounters{}
}

// checkTunnel sends the largest packets that the tunnel of a path from vm1 to vm2 carries, and one
// that is larger. Below it each of them has at least so many bytes more.
func checkTunnel(t *testing.T, l *Lab, p Path, overhead int) {
	t.Helper()
	before := counted(t, l, "vm2", p.Name)
	size := fmt.Sprint(p.Outer.MTU - 28)
	text := must(t, l, "vm1", "ping", "-n", "-c", "3", "-i", "0.05", "-W", "2", "-M", "do", "-s", size, "-I", p.Source.String(), p.Destination.String())
	if !strings.Contains(text, "ttl=64 ") {
		t.Errorf("path %s: inside there is no hop, so a TTL of 64, but ping says:\n%s", p.Name, text)
	}
	if text, code := output(t, l, "vm1", "ping", "-n", "-c", "1", "-W", "1", "-M", "do", "-s", fmt.Sprint(p.Outer.MTU-27), "-I", p.Source.String(), p.Destination.String()); code == 0 {
		t.Errorf("path %s: a packet larger than the MTU of %d passed:\n%s", p.Name, p.Outer.MTU, text)
	}
	if after, least := counted(t, l, "vm2", p.Name), before.ReceivedBytes+3*uint64(p.Outer.MTU+overhead); after.ReceivedBytes < least {
		t.Errorf("path %s: below the tunnel %d bytes arrived, want at least %d", p.Name, after.ReceivedBytes, least)
	}
}

func TestVXLAN(t *testing.T) {
	t.Parallel() // it waits for most of its time
	needProgram(t, "ip", "ping")
	l, paths := startExperiment(t, labtest.Attached())
	shown := linksShown(t, l, "vm1")["vxlan-1x"]
	data := shown.LinkInfo.Data
	if shown.MTU != 1450 || shown.LinkInfo.Kind != "vxlan" || data.ID != 7 || data.Port != 4789 || data.Learning || data.TTL != 64 ||
		data.Local != "10.1.0.1" || data.Remote != "10.1.1.2" {
		t.Errorf("ip shows %+v", shown)
	}
	for _, p := range paths[1:] {
		// RFC 7348 section 5: outer Ethernet, IPv4, UDP and VXLAN headers and
		// the inner Ethernet header around each packet.
		checkTunnel(t, l, p, 64)
		if text := must(t, l, "vm1", "ip", "route", "get", p.Destination.String()); !strings.Contains(text, "src "+p.Source.String()) {
			t.Errorf("path %s: %s", p.Name, text)
		}
	}
	if text := must(t, l, "vm2", "ip", "route", "show", "10.255.1.0/30"); !strings.Contains(text, "congctl reno") {
		t.Errorf("flows in the tunnel have not the endpoint's congestion control: %s", text)
	}
}

// A firewall sees VXLAN's two directions as two flows that nobody answers: each
// has a source port of its own. So every packet of the tunnel meets all rules, and
// only the first of a flow without one.
func TestFirewallUnderVXLAN(t *testing.T) {
	t.Parallel() // it waits for most of its time
	needProgram(t, "nft", "ping", "cat")
	hops := []experiment.Hop{{Type: experiment.Firewall, Name: "fw", Rules: 5}}
	e := labtest.Attached()
	e.Paths = []experiment.Path{
		{Name: "native", Hops: hops},
		{Name: "inside", Hops: hops, Tunnel: &experiment.Tunnel{Type: experiment.VXLAN, ID: 7, Port: 4789, MTU: 1450}},
	}
	l, paths := startExperiment(t, e)
	const n = 10
	packetsAtRules := map[string]int{}
	for _, p := range paths {
		node := p.Name + "/fw"
		must(t, l, node, "nft", "insert", "rule", "ip", "hopbench", "rules-1", "counter")
		must(t, l, "vm1", "ping", "-n", "-c", fmt.Sprint(n), "-i", "0.02", "-W", "10", "-I", p.Source.String(), p.Destination.String())
		text := must(t, l, node, "nft", "list", "chain", "ip", "hopbench", "rules-1")
		var packets int
		_, after, _ := strings.Cut(text, "counter packets ")
		if _, err := fmt.Sscan(after, &packets); err != nil {
			t.Fatalf("no counter in\n%s", text)
		}
		packetsAtRules[p.Name] = packets
	}
	// ARP is inside the tunnel, too.
	if packetsAtRules["native"] != 1 || packetsAtRules["inside"] < 2*n {
		t.Errorf("of %d echo requests and as many replies %d met the rules natively, want 1, and %d in the tunnel, want all", n, packetsAtRules["native"], packetsAtRules["inside"])
	}
	if table, code := output(t, l, "inside/fw", "cat", "/proc/net/nf_conntrack"); code == 0 && strings.Count(table, "[UNREPLIED]") < 2 {
		t.Errorf("the tunnel's two directions are not two flows without an answer:\n%s", table)
	}
}

// WireGuard runs where the kernel has it, and is missed in words where not.
func TestWireGuard(t *testing.T) {
	needProgram(t, "ping")
	e := labtest.Attached()
	e.Paths = []experiment.Path{e.Paths[0], {
		Name: "secret", Hops: e.Paths[1].Hops, Tunnel: &experiment.Tunnel{Type: experiment.WireGuard, Port: 51820, MTU: 1420},
	}}
	built, paths, err := FromExperiment(e)
	testutil.OK(t, err)
	needLab(t)
	if !kernelHas(t, &netlink.Wireguard{}) {
		l, err := Start(t.Context(), built, Options{NodeCommand: []string{"echo-agent"}})
		if err == nil {
			l.Close()
			t.Fatal("it started without WireGuard")
		}
		if !strings.Contains(err.Error(), "this kernel has no WireGuard") || strings.Contains(err.Error(), "veth") {
			t.Errorf("got %v", err)
		}
		return
	}
	needProgram(t, "ip", "wg")
	l := startLab(t, built)
	p := paths[1]
	// The protocol of WireGuard, "transport data": outer Ethernet, IPv4 and UDP
	// headers, 16 bytes of its own and a tag of 16 around each packet.
	checkTunnel(t, l, p, 74)
	if shown := linksShown(t, l, "vm2")["wireguard-1"]; shown.MTU != 1420 || shown.LinkInfo.Kind != "wireguard" {
		t.Errorf("ip shows %+v", shown)
	}
	near, far := wireGuardShown(t, l, "vm1"), wireGuardShown(t, l, "vm2")
	for _, end := range []struct {
		own, other wireGuardEnd
		endpoint   string
		peer       string
	}{
		{near, far, fmt.Sprintf("%s:51820", p.Outer.Destination), p.Destination.String() + "/32"},
		{far, near, fmt.Sprintf("%s:51820", p.Outer.Source), p.Source.String() + "/32"},
	} {
		if end.own.port != "51820" || end.own.peerKey != end.other.publicKey || end.own.endpoint != end.endpoint || end.own.allowed != end.peer {
			t.Errorf("wg shows %+v, want the key %s at %s for %s", end.own, end.other.publicKey, end.endpoint, end.peer)
		}
		if end.own.handshake == "0" {
			t.Errorf("packets passed without a handshake: %+v", end.own)
		}
	}
}

// wireGuardEnd is what `wg show DEVICE dump` says of a tunnel with one peer.
type wireGuardEnd struct {
	publicKey, port                       string
	peerKey, endpoint, allowed, handshake string // seconds since 1970, 0 for never
}

func wireGuardShown(t *testing.T, l *Lab, node string) wireGuardEnd {
	t.Helper()
	// private-key public-key listen-port fwmark, and for a peer: public-key
	// preshared-key endpoint allowed-ips latest-handshake rx tx keepalive (wg(8)).
	fields := strings.Fields(must(t, l, node, "wg", "show", "wireguard-1", "dump"))
	if len(fields) != 12 {
		t.Fatalf("%s: wg shows %d fields, not those of one peer: %q", node, len(fields), fields)
	}
	return wireGuardEnd{fields[1], fields[2], fields[4], fields[6], fields[7], fields[8]}
}

// kernelHas tries to make a kind of link in a namespace of its own.
func kernelHas(t *testing.T, link netlink.Link) bool {
	t.Helper()
	l := startLab(t, Topology{Nodes: []Node{{Name: "probe"}}})
	features, err := call[message.Features](t.Context(), l, message.Probe, "probe")
	testutil.OK(t, err)
	return features.Found[link.Type()] == ""
}

// A software switch is no hop of IP, and everything passes it.
func TestSoftwareSwitch(t *testing.T) {
	needProgram(t, "ip", "ping", "bridge")
	e := labtest.Attached()
	e.Endpoints[1].SoftwareSwitch = true
	e.Endpoints[0].EgressBitsPerSecond = 1e9
	built, paths, err := FromExperiment(e)
	testutil.OK(t, err)
	l := startLab(t, built)
	if facts := l.Facts(); slices.ContainsFunc(facts, func(f string) bool { return strings.Contains(f, "switch") }) {
		t.Errorf("facts: %q", facts)
	}
	for _, p := range paths {
		text := must(t, l, "vm1", "ping", "-n", "-c", "5", "-i", "0.01", "-W", "2", "-I", p.Source.String(), p.Destination.String())
		if !strings.Contains(text, fmt.Sprintf("ttl=%d ", p.ReceivedTTL)) {
			t.Errorf("path %s: want a TTL of %d in\n%s", p.Name, p.ReceivedTTL, text)
		}
	}
	for _, node := range []string{"vm1.switch", "vm2.switch"} {
		links := linksShown(t, l, node)
		for i, link := range built.Links {
			if link.A.Switch != node && link.B.Switch != node {
				continue
			}
			bridge := topology.SwitchBridge(i)
			for _, port := range []string{topology.SwitchNodePort(i), topology.SwitchLinkPort(i)} {
				if s := links[port]; s.Master != bridge || s.LinkInfo.SlaveData.State != "forwarding" {
					t.Errorf("%s: port %s: %+v", node, port, s)
				}
				if c := counted(t, l, node, port); c.ReceivedPackets < 5 || c.SentPackets < 5 {
					t.Errorf("%s: port %s carried five pings, but counted %+v", node, port, c)
				}
			}
		}
		if text := must(t, l, node, "ip", "-4", "address"); strings.Count(text, "inet ") != 1 { // lo
			t.Errorf("the switch has addresses:\n%s", text)
		}
	}
	if text := must(t, l, "vm1.switch", "sh", "-c", "cat /proc/sys/net/bridge/bridge-nf-call-iptables 2>/dev/null || echo 0"); text != "0\n" {
		t.Errorf("bridged packets pass the firewall hooks: %q", text)
	}
}
