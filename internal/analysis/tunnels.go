package analysis

import (
	"strconv"
	"strings"

	"github.com/hopbench/hopbench/internal/result"
)

// tunnelNotes names the firewalls below VXLAN. Its source port is a hash of the
// inner flow (RFC 7348, section 5), another one each way. To nf_conntrack they are
// two flows that nobody answers, whose packets stay new
// (nf_conntrack_in in net/netfilter/nf_conntrack_core.c: established takes a
// packet of the other direction), so a rule for established flows never matches.
// WireGuard has the same two ports both ways.
func tunnelNotes(paths []result.PathInfo) []result.Note {
	var out []result.Note
	for _, p := range paths {
		if !strings.HasPrefix(p.Tunnel, "vxlan") {
			continue
		}
		for _, h := range p.Hops {
			if rules, err := strconv.Atoi(h.Parameters["rules"]); err == nil && rules > 0 && h.Type == "firewall" && !h.Bypassed {
				out = append(out, result.Note{Code: result.NoteTunnelMeetsRules, Path: p.Name, Name: h.Name, Count: rules})
			}
		}
	}
	return out
}
