package hostinfo

import (
	"net/netip"
	"slices"
	"testing"
)

func TestLost(t *testing.T) {
	own, foreign := netip.MustParseAddr("::ffff:127.0.0.1"), netip.MustParseAddr("192.0.2.1")
	if l, is := Lost(own); is || !slices.Contains(Addresses(), own.Unmap()) {
		t.Errorf("%+v of %v", l, Addresses())
	}
	if l, is := Lost(foreign); !is || l.Says("s") != "s has lost its address 192.0.2.1" {
		t.Errorf("%+v", l)
	}
}
