package filter

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// MaxWays of a Spread.
const MaxWays = 64

// Spread has a node spread the flows that come in over its other interfaces
// over several ways. A flow keeps the way that its first packet took, and so
// does what comes back: a packet that comes in over a way binds its flow to
// that way.
//
// It costs a flow's packets no time to live, so that a node that spreads shows
// in no trace.
type Spread struct {
	Ways []Way `json:"ways"`
	// Active is how many of the ways, from the first on, take new flows.
	Active int `json:"active"`
}

// Way is one of the ways of a Spread.
type Way struct {
	Interface string     `json:"interface"`
	Via       netip.Addr `json:"via"` // the next hop on it
}

// Validate checks s.
func (s Spread) Validate() error {
	var errs []error
	if n := len(s.Ways); n < 1 || n > MaxWays {
		errs = append(errs, fmt.Errorf("%d ways are not between 1 and %d", n, MaxWays))
	}
	if s.Active < 1 || s.Active > len(s.Ways) {
		errs = append(errs, fmt.Errorf("%d active ways are not between 1 and %d", s.Active, len(s.Ways)))
	}
	seen := map[string]bool{}
	for _, w := range s.Ways {
		if w.Interface == "" || seen[w.Interface] {
			errs = append(errs, fmt.Errorf("interface %q of a way is not one of its own", w.Interface))
		}
		seen[w.Interface] = true
		if !w.Via.Is4() {
			errs = append(errs, fmt.Errorf("way over %s: needs the IPv4 address of the next hop", w.Interface))
		}
	}
	return errors.Join(errs...)
}

// Line is s in a plan.
func (s Spread) Line(node string) string {
	ways := make([]string, len(s.Ways))
	for i, w := range s.Ways {
		ways[i] = fmt.Sprintf("%s via %s", w.Interface, w.Via)
	}
	return fmt.Sprintf("spread %s over %d of %d: %s", node, s.Active, len(s.Ways), strings.Join(ways, ", "))
}
