package lab

import (
	"errors"
	"fmt"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/cable"
	"github.com/hopbench/hopbench/internal/lab/filter"
)

// The features that a lab probes in itself, by really using them.
const (
	featureVeth   = "veth"
	featureTBF    = "tbf"
	featureTAP    = "tap"
	featurePacket = "packet"
	featureNetem  = "netem"
	featureVXLAN  = "vxlan"
	featureWG     = "wireguard"
	featureBridge = "bridge"
	featurePing   = "ping"
	featureCubic  = "congestion"
	featureProc   = "proc"
)

// answerProbe tries every feature in one node of the lab.
func (s *supervisor) answerProbe(m message) {
	s.builder.mu.Lock()
	n := s.builder.nodes[m.Node]
	s.builder.mu.Unlock()
	if n == nil {
		s.reply(message{ID: m.ID, Error: fmt.Sprintf("the lab has no node %q", m.Node)})
		return
	}
	found := make(map[string]string)
	err := n.within(func() error {
		n.probe(func(feature string, err error) {
			switch {
			case err == nil:
				found[feature] = ""
			case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP):
				found[feature] = fmt.Sprintf("this kernel lacks it (%v)", err)
			default:
				found[feature] = err.Error()
			}
		})
		return nil
	})
	answer := message{ID: m.ID, Environment: found}
	if err != nil {
		answer.Error = err.Error()
	}
	if facts := s.facts(); len(facts) > 0 {
		found[featureProc] = strings.Join(facts, "; ")
	}
	s.reply(answer)
}

// probe runs in a thread of the node and leaves devices behind, which go with
// the lab.
func (n *node) probe(report func(feature string, err error)) {
	index, err := n.probeVeth()
	report(featureVeth, err)
	if err == nil {
		// Another handle than tbf's: a qdisc is not replaced by one of another kind.
		root := netlink.QdiscAttrs{LinkIndex: index, Parent: netlink.HANDLE_ROOT, Handle: netlink.MakeHandle(2, 0)}
		report(featureTBF, n.handle.QdiscReplace(tbf(index, egressBucket(1e9))))
		report(featureNetem, n.handle.QdiscReplace(&netlink.Netem{QdiscAttrs: root, Latency: 1000, Limit: 1000}))
		packet, err := cable.OpenPacket("probe-a")
		if err == nil {
			err = packet.Close()
		}
		report(featurePacket, err)
	}
	tap, err := cable.OpenTAP("probe-tap", cable.Config{})
	if err == nil {
		err = tap.Close()
	}
	report(featureTAP, err)
	attributes := netlink.NewLinkAttrs()
	attributes.Name = "probe-vxlan"
	report(featureVXLAN, n.handle.LinkAdd(&netlink.Vxlan{LinkAttrs: attributes, VxlanId: 1, Port: 4789}))
	for _, f := range filter.Features() {
		report(f.Name, f.Try(int(n.ns.Fd())))
	}
	attributes.Name = "probe-wg"
	report(featureWG, n.handle.LinkAdd(&netlink.Wireguard{LinkAttrs: attributes}))
	attributes.Name = "probe-bridge"
	report(featureBridge, n.handle.LinkAdd(&netlink.Bridge{LinkAttrs: attributes}))
	report(featurePing, probePing())
	available, err := readSysctl("net.ipv4.tcp_available_congestion_control")
	if err == nil && !strings.Contains(" "+available+" ", " "+DefaultCongestionControl+" ") {
		err = fmt.Errorf("the kernel offers %s", available)
	}
	report(featureCubic, err)
}

func (n *node) probeVeth() (index int, err error) {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = "probe-a"
	pair := netlink.NewVeth(attributes)
	pair.PeerName = "probe-b"
	if err := n.handle.LinkAdd(pair); err != nil {
		return 0, err
	}
	link, err := n.handle.LinkByName("probe-a")
	if err != nil {
		return 0, err
	}
	return link.Attrs().Index, n.handle.LinkSetUp(link)
}

// probePing opens the kind of socket that needs no privilege to send echo requests.
func probePing() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// hostPing says whether this process may ping on the host without privileges.
func hostPing() error {
	err := probePing()
	if errors.Is(err, unix.EACCES) {
		return fmt.Errorf("net.ipv4.ping_group_range is %q", hostSetting("net.ipv4.ping_group_range"))
	}
	return err
}
