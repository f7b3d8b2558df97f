package trace

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/icmp/chaintest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// What traces on macOS works with a raw socket of Linux, too.
func TestEchoes(t *testing.T) {
	c := chaintest.New(t, 3)
	c.Router(2).Silence(t)
	for _, v6 := range []bool{false, true} {
		for _, protocol := range []measurement.Protocol{measurement.OverICMP, measurement.OverUDP} {
			o := traceByEchoes(t, c, Request{
				Spec:   measurement.Spec{Protocol: protocol, Timeout: 0.5},
				Target: netip.AddrPortFrom(c.Target(v6), 0),
			})
			want := []string{c.Hop(1, v6).String(), "*", c.Hop(3, v6).String(), c.Target(v6).String()}
			if !slices.Equal(addresses(o.Hops), want) || !o.Hops[len(o.Hops)-1].Reached {
				t.Errorf("IPv6 %v: the hops are %+v, want %v", v6, o.Hops, want)
			}
			said := slices.ContainsFunc(o.Facts, func(f string) bool { return strings.Contains(f, "ICMP echo requests only") })
			if o.Effective["trace_protocol"] != "icmp" || said != (protocol != measurement.OverICMP) {
				t.Errorf("%v, %q", o.Effective, o.Facts)
			}
		}
	}
}

func TestEchoesRefused(t *testing.T) {
	c := chaintest.New(t, 1)
	target := netip.MustParseAddr("203.0.113.1")
	c.Router(1).AddRoute(t, netip.PrefixFrom(target, 32), netip.Addr{}, unix.RTN_UNREACHABLE)
	o := traceByEchoes(t, c, Request{Spec: measurement.Spec{Protocol: measurement.OverICMP, Timeout: 0.5}, Target: netip.AddrPortFrom(target, 0)})
	if len(o.Hops) != 1 || o.Hops[0].Reached || !slices.Contains(o.Facts, "the destination was not reached") {
		t.Errorf("%+v, %q", o.Hops, o.Facts)
	}
}

// The end of the context ends a wait that has long to go.
func TestEchoesCancelled(t *testing.T) {
	c := chaintest.New(t, 0)
	var err error
	c.Source().Do(t, func() {
		var p plan
		if p, err = planOf(Request{Spec: measurement.Spec{Protocol: measurement.OverICMP}, Target: netip.AddrPortFrom(c.Target(false), 0)}); err != nil {
			return
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var e *echoes
		if e, err = openEchoes(ctx, p); err != nil {
			return
		}
		cancel()
		_, err = e.wait(time.Now().Add(time.Hour), nil)
		err = errors.Join(err, e.close())
	})
	testutil.OK(t, err)
}

func traceByEchoes(t *testing.T, c *chaintest.Chain, req Request) (o measurement.Outcome) {
	t.Helper()
	var err error
	c.Source().Do(t, func() {
		var p plan
		if p, err = planOf(req); err != nil {
			return
		}
		var e *echoes
		if e, err = openEchoes(context.Background(), p); err != nil {
			return
		}
		m := newMachine(p.maxHops, p.timeout)
		err = drive(context.Background(), m, e, nil)
		o = outcome(p, m, e)
		err = errors.Join(err, e.close())
	})
	testutil.OK(t, err)
	return o
}
