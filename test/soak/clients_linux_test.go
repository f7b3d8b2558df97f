package soak

import (
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"os/exec"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
)

// mix is the clients of a soak.
type mix struct {
	tally
	*server
	honest       honest
	iperf3, curl string  // "" when there is none
	loads        starter // of processes whose work is not to take the server's CPUs
	fair         starter // of the others
	seed         uint64
	deeds        []deed       // of bad clients
	dealt        atomic.Int64 // how many of them began
}

// loadNice leaves the server its CPUs: its clients would be elsewhere.
const loadNice = 10

func newMix(t *testing.T, s *server, seed uint64) *mix {
	m := &mix{tally: newTally(), server: s, seed: seed, loads: newStarter(t, loadNice), fair: newStarter(t, 0)}
	m.honest.waits, m.honest.fails = map[string][]time.Duration{}, map[string][]time.Duration{}
	m.iperf3, m.curl = find(t, "iperf3"), find(t, "curl")
	wanted := regexp.MustCompile(*only)
	m.deeds = slices.DeleteFunc(slices.Clone(badDeeds), func(d deed) bool { return !wanted.MatchString(d.name) })
	if len(m.deeds) == 0 {
		t.Fatalf("no bad client is %q", *only)
	}
	return m
}

func find(t *testing.T, name string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		t.Logf("no %s: it is not installed", name)
	}
	return path
}

// specs are short tests of every kind that a server takes part in.
var specs = []measurement.Spec{
	{Kind: measurement.TCP, Flows: 1},
	{Kind: measurement.TCP, Flows: 8, Direction: measurement.Receive},
	{Kind: measurement.TCP, Flows: 2, CopyPayload: true},
	{Kind: measurement.TCP, Flows: 3, Direction: measurement.Both},
	{Kind: measurement.UDP, RateBitsPerSecond: 100e6},
	{Kind: measurement.UDP, Flows: 4, Direction: measurement.Receive, RateBitsPerSecond: 50e6},
	{Kind: measurement.PPS},
	{Kind: measurement.RR},
	{Kind: measurement.RR, Protocol: measurement.OverUDP},
	{Kind: measurement.RR, RequestsPerSecond: 500},
	{Kind: measurement.CRR, Flows: 2},
	{Kind: measurement.Load, Flows: 2, IdleDuration: 0.1},
	{Kind: measurement.FTP, Flows: 2, FileBytes: 10e6},
	{Kind: measurement.MTU},
}

// shortTest is the measured time of those that have one, without warm-up.
const shortTest = 300 * time.Millisecond

// measure does one native test.
func (m *mix) measure(ctx context.Context, from netip.Addr, spec measurement.Spec) error {
	if spec.Kind != measurement.MTU && spec.Kind != measurement.FTP {
		spec.Duration, spec.MaxWarmup = measurement.Seconds(shortTest.Seconds()), 0.05
	}
	_, err := probe.Run(ctx, probe.Request{ID: "soak", Spec: spec, Target: m.of(from), Source: from}, nil)
	return err
}

// warmUp has the server see every kind of test once, so that what it keeps for
// good is there before it is counted.
func (m *mix) warmUp(t *testing.T) {
	for _, spec := range specs {
		err := m.measure(t.Context(), m.v4.Addr(), spec)
		switch {
		case outcome(err) == string(probe.Unsupported):
			t.Logf("no clients of this kind: %v", err)
		case err != nil:
			t.Errorf("the only client of an idle server is not served: %s %s: %v", spec.Kind, spec.Direction, err)
		}
	}
}

// client does one deed after the other.
type client struct {
	*mix
	from netip.Addr
	r    *rand.Rand
}

// betweenDeeds is the longest pause of a bad client.
const betweenDeeds = 500 * time.Millisecond

// deed is what a client does, with the name under which it is counted.
type deed struct {
	name string
	do   func(*client, context.Context, string)
}

// run has the workers do one thing after the other until ctx ends.
func (m *mix) run(ctx context.Context) {
	ordinary := []deed{
		{"native", (*client).native}, {"native", (*client).native}, {"native", (*client).native},
		{"iperf3", (*client).stock}, {"ftp fetch", (*client).fetch},
		{"garbage over TCP", (*client).garbage}, {"garbage over UDP", (*client).datagrams}, {"held open", (*client).hold},
		{"killed", (*client).kill}, {"suspended", (*client).suspend},
	}
	var all sync.WaitGroup
	for i := range workers {
		r := rand.New(rand.NewPCG(m.seed, uint64(i)))
		all.Go(func() {
			for ctx.Err() == nil {
				c := &client{mix: m, from: ordinaryAddress(i, m.v6.IsValid() && r.IntN(3) == 0), r: r}
				one := ordinary[r.IntN(len(ordinary))]
				one.do(c, ctx, one.name)
			}
		})
	}
	deal := deck(rand.New(rand.NewPCG(m.seed, 1<<32)), m.deeds, &m.dealt)
	for i := range badWorkers {
		r := rand.New(rand.NewPCG(m.seed, 1<<33+uint64(i)))
		all.Go(func() {
			for ctx.Err() == nil {
				c := &client{mix: m, from: badAddress(i, m.v6.IsValid() && r.IntN(3) == 0), r: r}
				one := deal()
				one.do(c, ctx, one.name)
				pause(ctx, time.Duration(r.Int64N(int64(betweenDeeds))))
			}
		})
	}
	all.Go(func() { m.watchHonest(ctx) })
	all.Wait()
}

// deck deals cards in a random order, each once before any is dealt again.
func deck(r *rand.Rand, cards []deed, dealt *atomic.Int64) (deal func() deed) {
	var mu sync.Mutex
	var left []deed
	return func() deed {
		mu.Lock()
		defer mu.Unlock()
		if len(left) == 0 {
			left = slices.Clone(cards)
			r.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
		}
		dealt.Add(1)
		card := left[0]
		left = left[1:]
		return card
	}
}

// note counts what became of a client, unless the soak ended it, and says whether it may go on.
func (c *client) note(ctx context.Context, name string, err error) bool {
	if ctx.Err() != nil {
		c.add(name, "cut short")
		return err == nil
	}
	became := outcome(err)
	c.add(name, became)
	c.example(name, became, err)
	return err == nil
}

// patience is how long a client is at anything; no deadline of a server is
// longer for a client that does not do a test.
const patience = time.Minute

// conn is a connection that ends with the soak, and all of whose operations end
// in time.
type conn struct {
	net.Conn
	release func() bool
}

func (c *conn) Close() error {
	c.release()
	return c.Conn.Close()
}

// within bounds what is done with the connection from now on.
func (c *conn) within(ctx context.Context, d time.Duration) error {
	if err := c.SetDeadline(time.Now().Add(d)); err != nil {
		return err
	}
	return ctx.Err() // its end may have set the deadline just before
}

// dial connects to the server.
func (c *client) dial(ctx context.Context, network string) (*conn, error) {
	return c.dialPort(ctx, network, c.of(c.from).Port(), 0)
}

// dialPort connects to a port of the server, with a receive buffer of so many
// bytes if not 0.
func (c *client) dialPort(ctx context.Context, network string, port uint16, buffer int) (*conn, error) {
	d := net.Dialer{Timeout: patience, Control: func(_, _ string, raw syscall.RawConn) (err error) {
		outer := raw.Control(func(fd uintptr) {
			// Else an address has 28 000 ports, those in TIME_WAIT included.
			err = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
			if buffer > 0 && err == nil {
				err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, buffer)
			}
		})
		if outer != nil {
			return outer
		}
		return err
	}}
	d.LocalAddr = &net.TCPAddr{IP: c.from.AsSlice()}
	if network == "udp" {
		d.LocalAddr = &net.UDPAddr{IP: c.from.AsSlice()}
	}
	raw, err := d.DialContext(ctx, network, netip.AddrPortFrom(c.of(c.from).Addr(), port).String())
	if err != nil {
		return nil, err
	}
	if err := raw.SetDeadline(time.Now().Add(2 * patience)); err != nil {
		raw.Close()
		return nil, err
	}
	return &conn{raw, context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })}, nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// stay is how long a bad client holds what it got: some seconds, and now and
// then half a minute.
func (c *client) stay(ctx context.Context) {
	most := 5 * time.Second
	if c.r.IntN(8) == 0 {
		most = 30 * time.Second
	}
	pause(ctx, 500*time.Millisecond+time.Duration(c.r.Int64N(int64(most))))
}

func randomBytes(r *rand.Rand, n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(r.Uint32())
	}
	return out
}
