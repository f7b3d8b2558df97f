package soak

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
)

var (
	length = flag.Duration("soak", 15*time.Second, "how long the mixed clients run")
	seed   = flag.Uint64("seed", 1, "of what the clients do")
)

const (
	workers = 8
	// settle bounds the time in which a server has to be rid of its last
	// clients: the longest deadline of docs/protocol.md is 15 s, for START, and
	// 5 s more for the end.
	settle = 40 * time.Second
	// A server's memory may be larger in the last third than in the first by
	// this factor and this much: the collector's own swing.
	memoryFactor, memorySlack = 1.5, 16 << 20
	// The Go runtime keeps threads for later use, so they do not come back; they
	// must not grow with time.
	threadFactor, threadSlack = 1.5, 8
)

func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("a soak takes its time")
	}
	s := startServer(t)
	m := newMix(t, s.addr, s.program, *seed)
	m.warmUp(t)
	idle := s.idle(t)
	t.Logf("idle: %v; %v of %d workers, seed %d", idle, *length, workers, *seed)

	samples := s.watchWhile(t, *length, m.run)
	m.report(t)
	end := s.settled(t, idle)
	t.Logf("settled: %v", end)

	first, last := samples[:(len(samples)+2)/3], samples[len(samples)-(len(samples)+2)/3:]
	before, after := median(first, sample.memory), median(last, sample.memory)
	bound := memoryFactor*before + memorySlack
	t.Logf("memory: %.1f MB in the first third, %.1f MB in the last; bound %.1f MB", before/1e6, after/1e6, bound/1e6)
	if after > bound {
		t.Error("the server's memory grows")
	}
	if end.descriptors > idle.descriptors {
		t.Errorf("%d descriptors are left open %v after the last client, %d were at the start", end.descriptors, settle, idle.descriptors)
	}
	var peak float64
	for _, one := range first {
		peak = max(peak, float64(one.threads))
	}
	if limit := threadFactor*peak + threadSlack; float64(end.threads) > limit {
		t.Errorf("%d threads at the end, at most %.0f in the first third; bound %.0f", end.threads, peak, limit)
	}
	for _, spec := range []measurement.Spec{{Kind: measurement.RR}, {Kind: measurement.TCP, Flows: 4}} {
		if err := m.measure(t.Context(), spec); err != nil {
			t.Errorf("a fresh client is not served: %v", err)
		}
	}
	if counts := m.counts(); counts["native tcp: served"] == 0 || counts["native rr: served"] == 0 {
		t.Errorf("no native client was served: %v", counts)
	}
}

// server is "hopbench serve" as a process.
type server struct {
	program string
	addr    netip.AddrPort
	pid     int
	started time.Time
}

var serving = regexp.MustCompile(`^serving on .*:([0-9]+),`)

func startServer(t *testing.T) *server {
	t.Helper()
	program := filepath.Join(t.TempDir(), "hopbench")
	if out, err := exec.Command("go", "build", "-o", program, "github.com/hopbench/hopbench/cmd/hopbench").CombinedOutput(); err != nil {
		t.Fatalf("build hopbench: %v\n%s", err, out)
	}
	c := exec.Command(program, "serve", "--open", "--bind", "127.0.0.1", "--port", "0")
	said, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(said)
	line, err := lines.ReadString('\n')
	found := serving.FindStringSubmatch(line)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.Discard, lines) // ends with the process
	}()
	t.Cleanup(func() {
		if err := c.Process.Signal(os.Interrupt); err != nil {
			t.Errorf("the server ended before it was told to: %v", err)
		}
		<-drained
		if err := c.Wait(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	if found == nil {
		t.Fatalf("the server says %q (%v)", line, err)
	}
	port, err := strconv.ParseUint(found[1], 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return &server{program: program, addr: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(port)), pid: c.Process.Pid, started: time.Now()}
}

// sample is what the server holds at a moment.
type sample struct {
	at          time.Duration
	bytes       float64 // resident
	descriptors int
	threads     int
}

func (s sample) memory() float64 { return s.bytes }

func (s sample) String() string {
	return fmt.Sprintf("%6.0f s  %6.1f MB  %4d descriptors  %3d threads", s.at.Seconds(), s.bytes/1e6, s.descriptors, s.threads)
}

var (
	residentLine = regexp.MustCompile(`(?m)^VmRSS:\s*([0-9]+) kB$`)
	threadsLine  = regexp.MustCompile(`(?m)^Threads:\s*([0-9]+)$`)
)

func (s *server) sample(t *testing.T) sample {
	t.Helper()
	dir := filepath.Join("/proc", strconv.Itoa(s.pid))
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		t.Fatalf("the server is gone: %v", err)
	}
	descriptors, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		t.Fatalf("the server is gone: %v", err)
	}
	number := func(line *regexp.Regexp) int {
		found := line.FindSubmatch(status)
		if found == nil {
			t.Fatalf("the server is gone: its status is %q", status)
		}
		n, err := strconv.Atoi(string(found[1]))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return sample{at: time.Since(s.started), bytes: 1024 * float64(number(residentLine)), descriptors: len(descriptors), threads: number(threadsLine)}
}

// idle is the least that the server holds within the time that it may need to be
// rid of the last of well-meant clients.
func (s *server) idle(t *testing.T) sample {
	t.Helper()
	least := s.sample(t)
	for deadline := time.Now().Add(6 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if now := s.sample(t); now.descriptors < least.descriptors {
			least = now
		}
	}
	return least
}

// settled waits until the server holds no more descriptors than idle did, for
// as long as its deadlines may take, and returns what it holds then.
func (s *server) settled(t *testing.T, idle sample) sample {
	t.Helper()
	for deadline := time.Now().Add(settle); ; time.Sleep(100 * time.Millisecond) {
		now := s.sample(t)
		if now.descriptors <= idle.descriptors || time.Now().After(deadline) {
			return now
		}
	}
}

// watchWhile samples the server while work goes on, and shows a dozen samples.
func (s *server) watchWhile(t *testing.T, d time.Duration, work func(context.Context)) []sample {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var working sync.WaitGroup
	working.Go(func() { work(ctx) })
	defer working.Wait()
	tick := time.NewTicker(max(min(d/60, 5*time.Second), 100*time.Millisecond))
	defer tick.Stop()
	samples := []sample{s.sample(t)}
	shown := time.Now()
	for {
		select {
		case <-ctx.Done():
			return samples
		case <-tick.C:
			now := s.sample(t)
			samples = append(samples, now)
			if time.Since(shown) >= d/12 {
				shown = time.Now()
				t.Log(now)
			}
		}
	}
}

func median(samples []sample, of func(sample) float64) float64 {
	var all []float64
	for _, s := range samples {
		all = append(all, of(s))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// tally counts what became of clients.
type tally struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *tally) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[what]++
}

func (c *tally) counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.n)
}

func (c *tally) report(t *testing.T) {
	t.Helper()
	counts := c.counts()
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&out, "\n  %-40s %6d", name, counts[name])
		// What a server must never answer to a client of its own.
		if strings.HasPrefix(name, "native") && strings.HasSuffix(name, string(probe.Protocol)) {
			t.Errorf("%s: the server and its own client did not understand each other", name)
		}
	}
	t.Logf("clients:%s", out.String())
}
