package analysis

import (
	"reflect"
	"testing"

	"github.com/hopbench/hopbench/internal/result"
)

func TestTunnelNotes(t *testing.T) {
	firewall := func(rules string, bypassed bool) []result.HopInfo {
		return []result.HopInfo{{Type: "link"}, {Type: "firewall", Name: "fw", Parameters: map[string]string{"rules": rules}, Bypassed: bypassed}}
	}
	r := &result.Result{Paths: []result.PathInfo{
		{Name: "native", Baseline: true, Hops: firewall("5000", false)},
		{Name: "inside", Tunnel: "vxlan id 7, UDP port 4789, MTU 1450", Hops: firewall("5000", false)},
		{Name: "past", Tunnel: "vxlan id 8, UDP port 4789, MTU 1450", Hops: firewall("5000", true)},
		{Name: "without", Tunnel: "vxlan id 9, UDP port 4789, MTU 1450", Hops: firewall("0", false)},
		{Name: "secret", Tunnel: "wireguard, UDP port 51820, MTU 1420", Hops: firewall("5000", false)},
	}}
	Fill(r, DefaultOptions())
	var got []result.Note
	for _, n := range r.Notes {
		if n.Code == result.NoteTunnelMeetsRules {
			got = append(got, n)
		}
	}
	if want := []result.Note{{Code: result.NoteTunnelMeetsRules, Path: "inside", Name: "fw", Count: 5000}}; !reflect.DeepEqual(got, want) {
		t.Errorf("the notes are %+v, want %+v", got, want)
	}
}
