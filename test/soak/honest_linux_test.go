package soak

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os/exec"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/protocol"
)

const (
	// honestBound is within what time an honest client is served whatever the
	// others do.
	honestBound = 2 * time.Second
	// Who waits for as long as this goes away, as our own client does.
	honestPatience = 10 * time.Second
	// Visits are this far apart.
	honestEvery = time.Second
	honestBytes = 1 << 20
)

// honest is what became of the honest clients.
type honest struct {
	mu    sync.Mutex
	waits map[string][]time.Duration // from connecting to being served, by kind
	fails map[string][]time.Duration // from connecting to the end of those that were not, by kind and reason
}

func (h *honest) add(kind string, wait time.Duration, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		reason := kind + ": " + somePort.ReplaceAllString(err.Error(), ":…")
		h.fails[reason] = append(h.fails[reason], wait)
		return
	}
	h.waits[kind] = append(h.waits[kind], wait)
}

var somePort = regexp.MustCompile(`(:| port )[0-9]{4,5}\b`)

// visit is one kind of an honest client's tests: it returns how long it took
// until the server did what it was asked for.
type visit struct {
	kind string
	do   func(*client, context.Context) (time.Duration, error)
}

// watchHonest has a client come by from an address that is nobody else's, over
// IPv4 and IPv6 in turn.
func (m *mix) watchHonest(ctx context.Context) {
	visits := []visit{{"rr", (*client).visitRR}, {"tcp", (*client).visitTCP}, {"iperf3", (*client).visitIPerf3}, {"own client", (*client).visitWhole}}
	addresses := []netip.Addr{m.v4.Addr()}
	if m.v6.IsValid() {
		addresses = append(addresses, m.v6.Addr())
	}
	r := rand.New(rand.NewPCG(m.seed, 1<<34))
	for i := 0; ctx.Err() == nil; i++ {
		c := &client{mix: m, from: addresses[i%len(addresses)], r: r}
		for _, v := range visits {
			// One that waits when the soak ends is still to be served.
			visit, cancel := context.WithTimeout(context.WithoutCancel(ctx), honestPatience)
			began := time.Now()
			wait, err := v.do(c, visit)
			cancel()
			if err != nil {
				wait = time.Since(began)
			}
			m.honest.add(v.kind, wait, err)
			if ctx.Err() != nil {
				return
			}
		}
		pause(ctx, honestEvery)
	}
}

// visitRR is served by the first answer.
func (c *client) visitRR(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	b, err := c.start(ctx, shortRR)
	if err != nil {
		return 0, err
	}
	defer b.Close()
	err = b.exchange(0)
	wait := time.Since(began)
	if err == nil {
		err = b.exchange(1) // the last request
	}
	if err == nil {
		err = protocol.Expect(b, protocol.TypeReport, protocol.MaxControl, nil)
	}
	return wait, err
}

// exchange sends an rr test's request of one byte and reads the answer, in whose
// place the server may say why there is none.
func (b *bench) exchange(request byte) error {
	if _, err := b.Write([]byte{request}); err != nil {
		return err
	}
	answer := make([]byte, 1)
	if _, err := io.ReadFull(b, answer); err != nil {
		return err
	}
	if answer[0] == byte(protocol.TypeError) {
		return protocol.Expect(io.MultiReader(bytes.NewReader(answer), b), protocol.TypeReport, protocol.MaxControl, nil)
	}
	return nil
}

// visitTCP is served by the first bytes.
func (c *client) visitTCP(ctx context.Context) (time.Duration, error) {
	spec := shortTCP
	spec.Direction, spec.Duration = measurement.Receive, 0.1
	began := time.Now()
	b, err := c.start(ctx, spec)
	if err != nil {
		return 0, err
	}
	defer b.Close()
	_, err = protocol.ReadHeader(b)
	return time.Since(began), err
}

// visitIPerf3 is a stock client's whole visit, which is to send little.
func (c *client) visitIPerf3(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	if c.iperf3 == "" {
		s, err := c.iperf3Start(ctx, map[string]any{"tcp": true, "time": 0, "num": honestBytes, "parallel": 1, "len": 1000, "client_version": "3.16"}, 1)
		if err != nil {
			return 0, err
		}
		return time.Since(began), s.Close()
	}
	said, err := c.finish(c.fair, exec.CommandContext(ctx, c.iperf3, c.iperf3Args("-n", fmt.Sprint(honestBytes))...))
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, said)
	}
	return time.Since(began), nil
}

// visitWhole is a test by our own client, whose own time is not counted.
func (c *client) visitWhole(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	err := c.measure(ctx, c.from, pick(c, measurement.Spec{Kind: measurement.RR}, measurement.Spec{Kind: measurement.TCP, Direction: measurement.Receive}))
	return max(time.Since(began)-shortTest, 0), err
}

// judge tells how long honest clients waited, and holds that against the bound
// where asked to: it says something of a machine that is not too slow for so
// many clients.
func (h *honest) judge(t *testing.T, bounded bool) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, kind := range []string{"rr", "tcp", "iperf3", "own client"} {
		waits := slices.Sorted(slices.Values(h.waits[kind]))
		if len(waits) == 0 {
			t.Errorf("honest clients: none was served: %s", kind)
			continue
		}
		at := func(share float64) time.Duration {
			return waits[int(share*float64(len(waits)-1))].Round(100 * time.Microsecond)
		}
		t.Logf("honest clients, %-10s: %5d served after p50 %v, p99 %v, at most %v", kind, len(waits), at(0.5), at(0.99), at(1))
		if bounded && at(1) > honestBound {
			t.Errorf("an honest client waited for %v: %s", at(1), kind)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(h.fails)) {
		t.Errorf("%d honest clients were not served, the slowest after %v: %s", len(h.fails[why]), slices.Max(h.fails[why]).Round(time.Millisecond), why)
	}
}
