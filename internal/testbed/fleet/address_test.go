package fleet

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/agent"
)

// A machine has one address in a path's network, on however many of its interfaces: a server
// behind a load balancer has the balancer's on loopback, too.
func TestAddressOfAMachine(t *testing.T) {
	network := netip.MustParsePrefix("10.0.0.0/24")
	hello := func(addresses ...string) (h agent.Hello) {
		for _, a := range addresses {
			h.Interfaces = append(h.Interfaces, agent.Interface{Addresses: []netip.Addr{netip.MustParseAddr(a)}})
		}
		return h
	}
	for _, c := range []struct {
		hello     agent.Hello
		want, err string
	}{
		{hello("127.0.0.1", "10.0.0.7", "10.0.1.7"), "10.0.0.7", ""},
		{hello("10.0.0.7", "10.0.0.7"), "10.0.0.7", ""},
		{hello("10.0.0.7", "10.0.0.8"), "", "several addresses in 10.0.0.0/24, [10.0.0.7 10.0.0.8]"},
		{hello("127.0.0.1", "10.0.1.7"), "", "no address in 10.0.0.0/24; correct `to:`, its addresses are [10.0.1.7]"},
	} {
		got, err := addressIn(c.hello, network)
		if err == nil && got.String() != c.want || err != nil && (c.err == "" || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%v: %v, %v", c.hello.Interfaces, got, err)
		}
	}
}
