package filter

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"strings"
	"testing"
)

func pair(a, b string) Pair { return Pair{A: netip.MustParseAddr(a), B: netip.MustParseAddr(b)} }

func TestTable(t *testing.T) {
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.9.2")
	six := netip.MustParseAddr("2001:db8::1")
	for _, test := range []struct {
		name   string
		table  Table
		text   string
		fault  string // "" for none
		tracks bool
	}{
		{name: "nothing", text: ""},
		{name: "silent", table: Table{Silent: true}, text: "silent"},
		{
			name:  "firewall",
			table: Table{Firewall: &Firewall{Rules: 100, Pairs: []Pair{pair("10.0.0.1", "10.0.9.2"), pair("10.0.0.1", "10.0.9.6")}}},
			text:  "firewall of 100 rules between 2 pairs of addresses", tracks: true,
		},
		{
			name:  "one way",
			table: Table{Silent: true, Firewall: &Firewall{OneWay: true, Pairs: []Pair{pair("10.0.0.1", "10.0.9.2")}}},
			text:  "firewall of 0 rules between 10.0.0.1 and 10.0.9.2, one way; silent", tracks: true,
		},
		{name: "source", table: Table{NAT: &NAT{Inside: "in", Source: a}}, text: "source becomes 10.0.0.1 but at in", tracks: true},
		{
			name:  "both",
			table: Table{NAT: &NAT{Inside: "in", Source: a, Public: a, Destination: b}},
			text:  "destination 10.0.0.1 becomes 10.0.9.2; source becomes 10.0.0.1 but at in", tracks: true,
		},
		{name: "limit", table: Table{Silent: true, FlowLimit: 9}, text: "at most 9 flows; silent", tracks: true},

		{name: "no pairs", table: Table{Firewall: &Firewall{}}, fault: "0 pairs"},
		{name: "many rules", table: Table{Firewall: &Firewall{Rules: MaxRules + 1, Pairs: []Pair{pair("10.0.0.1", "10.0.9.2")}}}, fault: "131073 rules"},
		{name: "negative rules", table: Table{Firewall: &Firewall{Rules: -1, Pairs: []Pair{pair("10.0.0.1", "10.0.9.2")}}}, fault: "-1 rules"},
		{name: "IPv6", table: Table{Firewall: &Firewall{Pairs: []Pair{{A: six, B: b}}}}, fault: "must be IPv4"},
		{name: "no address", table: Table{Firewall: &Firewall{Pairs: []Pair{{A: a}}}}, fault: "must be IPv4"},
		{name: "NAT of nothing", table: Table{NAT: &NAT{}}, fault: "neither sources nor destinations"},
		{name: "NAT without interface", table: Table{NAT: &NAT{Source: a}}, fault: "or neither"},
		{name: "NAT without destination", table: Table{NAT: &NAT{Public: a}}, fault: "or neither"},
		{name: "NAT to IPv6", table: Table{NAT: &NAT{Public: a, Destination: six}}, fault: "only IPv4"},
		{name: "long interface", table: Table{NAT: &NAT{Source: a, Inside: "sixteen-bytes-xx"}}, fault: "at most 15 bytes"},
		{name: "negative limit", table: Table{FlowLimit: -1}, fault: "-1 flows"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.table.Validate()
			if test.fault != "" {
				if err == nil || !strings.Contains(err.Error(), test.fault) {
					t.Errorf("got %v, want %q in it", err, test.fault)
				}
				return
			}
			if err != nil {
				t.Error(err)
			}
			if got := test.table.String(); got != test.text {
				t.Errorf("got  %s\nwant %s", got, test.text)
			}
			if got := test.table.Tracks(); got != test.tracks {
				t.Errorf("tracks connections: %v", got)
			}
			// It travels to the supervisor as JSON.
			text, err := json.Marshal(test.table)
			var back Table
			if err == nil {
				err = json.Unmarshal(text, &back)
			}
			if err != nil || !reflect.DeepEqual(back, test.table) {
				t.Errorf("%s came back as %+v, %v", text, back, err)
			}
		})
	}
}

// Every rule looks for an address of its own that no packet of a lab has.
func TestRuleRangeIsLargeEnough(t *testing.T) {
	if hosts := 1 << (32 - ruleRange.Bits()); hosts < MaxRules {
		t.Errorf("%d rules look for %d addresses", MaxRules, hosts)
	}
	if ruleRange.Overlaps(netip.MustParsePrefix("10.0.0.0/8")) {
		t.Error("rules look for addresses of labs")
	}
}
