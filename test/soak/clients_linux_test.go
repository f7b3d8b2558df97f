package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/sockets"
)

// mix is the clients of a soak.
type mix struct {
	tally
	addr    netip.AddrPort
	program string // hopbench, for clients that are killed or stopped
	iperf3  string // "" when there is none, or the server does not speak its protocol
	seed    uint64
}

func newMix(t *testing.T, addr netip.AddrPort, program string, seed uint64) *mix {
	return &mix{tally: tally{n: map[string]int{}}, addr: addr, program: program, seed: seed, iperf3: findIPerf3(t, addr)}
}

func findIPerf3(t *testing.T, addr netip.AddrPort) string {
	path, err := exec.LookPath("iperf3")
	if err != nil {
		t.Log("no iperf3 clients: it is not installed")
		return ""
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if out, err := exec.CommandContext(ctx, path, iperf3Args(addr)...).CombinedOutput(); err != nil {
		t.Logf("no iperf3 clients: the server does not serve them: %v: %s", err, strings.TrimSpace(string(out)))
		return ""
	}
	return path
}

func iperf3Args(addr netip.AddrPort, more ...string) []string {
	return append([]string{"-c", addr.Addr().String(), "-p", strconv.Itoa(int(addr.Port())), "-t", "1"}, more...)
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
	{Kind: measurement.MTU},
}

// measure does one native test.
func (m *mix) measure(ctx context.Context, spec measurement.Spec) error {
	if spec.Kind != measurement.MTU {
		spec.Duration, spec.MaxWarmup = 0.3, 0.05
	}
	_, err := probe.Run(ctx, probe.Request{ID: "soak", Spec: spec, Target: m.addr}, nil)
	return err
}

// warmUp has the server see every kind of test once, so that what it keeps for
// good is there before it is counted.
func (m *mix) warmUp(t *testing.T) {
	for _, spec := range specs {
		err := m.measure(t.Context(), spec)
		switch {
		case unsupported(err):
			t.Logf("no clients of this kind: %v", err)
		case err != nil:
			t.Errorf("the only client of an idle server is not served: %s %s: %v", spec.Kind, spec.Direction, err)
		}
	}
}

func unsupported(err error) bool {
	if errors.Is(err, sockets.ErrUnsupported) {
		return true
	}
	known, ok := errors.AsType[*probe.Error](err)
	return ok && known.Reason == probe.Unsupported
}

// run has the workers do one thing after the other until ctx ends.
func (m *mix) run(ctx context.Context) {
	deeds := []func(context.Context, *rand.Rand){m.native, m.native, m.native, m.stock, m.garbage, m.datagrams, m.hold, m.kill, m.stop}
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			r := rand.New(rand.NewPCG(m.seed, uint64(i)))
			for ctx.Err() == nil {
				deeds[r.IntN(len(deeds))](ctx, r)
			}
		})
	}
	all.Wait()
}

func (m *mix) native(ctx context.Context, r *rand.Rand) {
	spec := specs[r.IntN(len(specs))]
	err := m.measure(ctx, spec)
	if ctx.Err() != nil {
		return
	}
	outcome := "served"
	if known, ok := errors.AsType[*probe.Error](err); ok {
		outcome = string(known.Reason)
	}
	if unsupported(err) {
		outcome = "not supported"
	}
	m.add(fmt.Sprintf("native %s: %s", spec.Kind, outcome))
}

// stock is an iperf3 client, which may be killed at any time.
func (m *mix) stock(ctx context.Context, r *rand.Rand) {
	if m.iperf3 == "" {
		return
	}
	variants := [][]string{{"-P", "2"}, {"-R"}, {"-u", "-b", "50M"}, {"-P", "4", "-R"}}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if r.IntN(3) == 0 {
		time.AfterFunc(time.Duration(r.IntN(1500))*time.Millisecond, cancel)
	}
	err := exec.CommandContext(ctx, m.iperf3, iperf3Args(m.addr, variants[r.IntN(len(variants))]...)...).Run()
	switch {
	case ctx.Err() != nil:
		m.add("iperf3: killed")
	case err != nil:
		m.add("iperf3: failed")
	default:
		m.add("iperf3: served")
	}
}

// dial connects; a server that is full refuses.
func (m *mix) dial(ctx context.Context, network string) net.Conn {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, m.addr.String())
	if err != nil {
		m.add(network + " connection: refused")
		return nil
	}
	return c
}

// beginnings are what garbage hides behind: nothing, the native preface, a
// frame after it, and an iperf3 cookie.
var beginnings = []string{"", "\xf0hopbnc\x01", "\xf0hopbnc\x01\x01\x00\x00\x00\x00\x00\x00\x10", "4vu74r65ppha3gibjwvkt3z42qjljbf5pqjz\x00"}

func (m *mix) garbage(ctx context.Context, r *rand.Rand) {
	c := m.dial(ctx, "tcp")
	if c == nil {
		return
	}
	defer c.Close()
	if c.SetDeadline(time.Now().Add(2*time.Second)) != nil {
		return
	}
	text := append([]byte(beginnings[r.IntN(len(beginnings))]), randomBytes(r, r.IntN(64<<10))...)
	_, _ = c.Write(text)            // the server may have hung up
	_, _ = c.Read(make([]byte, 64)) // it may answer, too
	m.add("garbage over TCP")
}

func randomBytes(r *rand.Rand, n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(r.Uint32())
	}
	return out
}

func (m *mix) datagrams(ctx context.Context, r *rand.Rand) {
	c := m.dial(ctx, "udp")
	if c == nil {
		return
	}
	defer c.Close()
	for range 100 {
		_, _ = c.Write(randomBytes(r, 1+r.IntN(1400))) // may be refused by ICMP
	}
	m.add("garbage over UDP")
}

// hold keeps a connection open and silent, before or after a beginning.
func (m *mix) hold(ctx context.Context, r *rand.Rand) {
	c := m.dial(ctx, "tcp")
	if c == nil {
		return
	}
	defer c.Close()
	_, _ = c.Write([]byte(beginnings[r.IntN(len(beginnings))]))
	pause(ctx, time.Duration(r.IntN(7000))*time.Millisecond)
	m.add("held open")
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// client starts hopbench test as a process.
func (m *mix) client(r *rand.Rand) *exec.Cmd {
	kinds := [][]string{{"--only", "tcp", "--flows", "4"}, {"--only", "tcp", "--reverse"}, {"--only", "rr"}, {"--only", "rr", "--udp"}}
	c := exec.Command(m.program, append([]string{"test", m.addr.String(), "--quiet", "--duration", "3s"}, kinds[r.IntN(len(kinds))]...)...)
	if err := c.Start(); err != nil {
		m.add("hopbench test: not started")
		return nil
	}
	return c
}

// kill ends a client without a word.
func (m *mix) kill(ctx context.Context, r *rand.Rand) {
	c := m.client(r)
	if c == nil {
		return
	}
	pause(ctx, time.Duration(r.IntN(2500))*time.Millisecond)
	m.end(c, "killed")
}

// stop suspends a client in the middle of its test; some go on after a while.
func (m *mix) stop(ctx context.Context, r *rand.Rand) {
	c := m.client(r)
	if c == nil {
		return
	}
	pause(ctx, time.Duration(200+r.IntN(1500))*time.Millisecond)
	if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
		m.end(c, "done before it was stopped")
		return
	}
	pause(ctx, time.Duration(1000+r.IntN(9000))*time.Millisecond)
	if r.IntN(2) == 0 {
		_ = c.Process.Signal(syscall.SIGCONT) // it exists until it is waited for
		pause(ctx, 2*time.Second)
		m.end(c, "stopped, continued")
		return
	}
	m.end(c, "stopped, killed")
}

func (m *mix) end(c *exec.Cmd, how string) {
	_ = c.Process.Kill() // it may have ended
	_ = c.Wait()         // by the signal
	m.add("hopbench test: " + how)
}
