package filter

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// MaxBackends of a Balance.
const MaxBackends = 64

// Balance has a node give each new flow towards Address to one of the back
// ends, by a hash of addresses, protocol and ports; the flow stays there.
type Balance struct {
	Address  netip.Addr   `json:"address"`
	Backends []netip.Addr `json:"backends"`
}

// Validate checks b. No back end at all is valid: Address then answers as the
// node itself does.
func (b Balance) Validate() error {
	var errs []error
	if !b.Address.Is4() {
		errs = append(errs, errors.New("the balanced address is not an IPv4 address"))
	}
	if n := len(b.Backends); n > MaxBackends {
		errs = append(errs, fmt.Errorf("%d back ends are more than %d", n, MaxBackends))
	}
	for i, a := range b.Backends {
		if !a.Is4() || a == b.Address || slices.Contains(b.Backends[:i], a) {
			errs = append(errs, fmt.Errorf("back end %s is not an IPv4 address of its own", a))
		}
	}
	return errors.Join(errs...)
}

// Line is b in a plan.
func (b Balance) Line(node string) string {
	names := make([]string, len(b.Backends))
	for i, a := range b.Backends {
		names[i] = a.String()
	}
	return fmt.Sprintf("balance %s %s to %s", node, b.Address, strings.Join(names, ", "))
}
