package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/lab/labtest"
	"github.com/hopbench/hopbench/internal/testutil"
	"golang.org/x/sys/unix"
)

func TestExec(t *testing.T) {
	needProgram(t, "sh", "cat")
	l := startLab(t, chain(1, nil))

	t.Run("status", func(t *testing.T) {
		if _, code := output(t, l, "router-1", "sh", "-c", "exit 7"); code != 7 {
			t.Errorf("exit 7 became %d", code)
		}
		if _, code := output(t, l, "router-1", "sh", "-c", "kill -TERM $$"); code != 128+15 {
			t.Errorf("SIGTERM became %d", code)
		}
	})
	t.Run("another user", func(t *testing.T) {
		needProgram(t, "setpriv", "id")
		text, code := output(t, l, "router-1", "setpriv", "--reuid=7", "--regid=8", "--clear-groups", "id", "-u")
		switch root := os.Geteuid() == 0 && mayMapIDs(); {
		case root && strings.TrimSpace(text) != "7":
			t.Errorf("the user is %q, want 7", text)
		case !root && code == 0:
			t.Errorf("a lab of an ordinary user has a user %q", text)
		}
	})
	t.Run("files, environment and directory", func(t *testing.T) {
		dir := t.TempDir()
		in, err := os.Create(dir + "/in")
		testutil.OK(t, err)
		defer in.Close()
		out, err := os.Create(dir + "/out")
		testutil.OK(t, err)
		defer out.Close()
		if _, err := in.WriteString("from the caller\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := in.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		code, err := l.Exec(t.Context(), "source", Command{
			Argv: []string{"sh", "-c", `cat; echo "$WORD"; pwd; id -u`}, Env: []string{"WORD=set", "PATH=/usr/bin:/bin"}, Dir: "/usr",
			Stdin: in, Stdout: out, Stderr: out,
		})
		text, readErr := os.ReadFile(dir + "/out")
		if want := "from the caller\nset\n/usr\n0\n"; err != nil || readErr != nil || code != 0 || string(text) != want {
			t.Errorf("got %q, %d, %v, %v, want %q", text, code, err, readErr, want)
		}
	})
	t.Run("own interfaces and processes", func(t *testing.T) {
		text := must(t, l, "router-1", "sh", "-c", "ls /sys/class/net; echo /proc/[0-9]*")
		if !strings.HasPrefix(text, "left\nlo\nright\n") {
			t.Errorf("/sys of router-1 shows %q", text)
		}
		// The supervisor, two agents, sh; a program of an earlier test may be ending.
		if n := strings.Count(text, "/proc/"); n > 10 {
			t.Errorf("/proc shows %d processes, so not the lab's alone: %s", n, text)
		}
	})
	t.Run("refused", func(t *testing.T) {
		for _, test := range []struct {
			node, program, want string
		}{
			{"nowhere", "true", `no node "nowhere"; it has source, router-1, destination`},
			{"source", "no-such-program", "executable file not found"},
			{"source", "/etc/passwd", "permission denied"},
		} {
			if _, err := l.Exec(t.Context(), test.node, Command{Argv: []string{test.program}}); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s in %s: %v, want %q", test.program, test.node, err, test.want)
			}
		}
		if _, err := l.Exec(t.Context(), "source", Command{}); err == nil {
			t.Error("a command without a program was accepted")
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		checkCancelled(t, func(ctx context.Context, c Command) (int, error) { return l.Exec(ctx, "source", c) })
	})
	t.Run("signal", func(t *testing.T) {
		r, w, err := os.Pipe()
		testutil.OK(t, err)
		defer r.Close()
		signals := make(chan os.Signal, 1)
		codes := make(chan int, 1)
		go func() {
			code, err := l.Exec(t.Context(), "source", Command{
				Argv: []string{"sh", "-c", `trap "exit 42" INT; echo runs; while :; do sleep 0.01; done`}, Stdout: w, Signals: signals,
			})
			if err != nil {
				t.Error(err)
			}
			w.Close()
			codes <- code
		}()
		if _, err := r.Read(make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		signals <- unix.SIGINT
		if code := <-codes; code != 42 {
			t.Errorf("SIGINT was not passed on: status %d", code)
		}
	})
	t.Run("orphans are collected", func(t *testing.T) {
		must(t, l, "source", "sh", "-c", "(true & true &) ; true")
		poll(t, func() bool {
			return !strings.Contains(must(t, l, "source", "sh", "-c", "grep -h State: /proc/[0-9]*/status 2>/dev/null || true"), "Z (zombie)")
		}, func() string { return "zombies stay in the lab" })
	})
	testutil.OK(t, l.Close())
	if _, err := l.Exec(t.Context(), "source", Command{Argv: []string{"true"}}); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed lab says %v", err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
	<-l.Done()
}

func TestEgressIsMetered(t *testing.T) {
	needProgram(t, "tc")
	built := chain(0, nil)
	built.Links[0].A.EgressBitsPerSecond = 1.25e9
	l := startLab(t, built)
	var qdiscs []struct {
		Kind    string `json:"kind"`
		Options struct {
			Rate  uint64 `json:"rate"` // bytes per second
			Burst uint64 `json:"burst"`
		} `json:"options"`
	}
	testutil.OK(t, json.Unmarshal([]byte(must(t, l, "source", "tc", "-j", "qdisc", "show", "dev", "right")), &qdiscs))
	if len(qdiscs) != 1 || qdiscs[0].Kind != "tbf" || qdiscs[0].Options.Rate != 156250000 || qdiscs[0].Options.Burst < 2*65536 {
		t.Errorf("qdiscs of the source: %+v", qdiscs)
	}
	if text := must(t, l, "destination", "tc", "qdisc", "show", "dev", "left"); !strings.Contains(text, "noqueue") {
		t.Errorf("the destination is not metered, but has %s", text)
	}
}

func TestExperimentInLab(t *testing.T) {
	needProgram(t, "ping", "ip")
	built, paths, err := FromExperiment(labtest.RoutingAppliance())
	testutil.OK(t, err)
	l := startLab(t, built)
	for _, p := range paths {
		text := must(t, l, p.SourceNode, "ping", "-n", "-c", "20", "-i", "0.01", "-W", "2", "-I", p.Source.String(), p.Destination.String())
		if !strings.Contains(text, fmt.Sprintf("ttl=%d ", p.ReceivedTTL)) {
			t.Errorf("path %s: want a TTL of %d in\n%s", p.Name, p.ReceivedTTL, text)
		}
		for i, hop := range p.Hops {
			// With a TTL of i+1 the hop itself answers, or says that time is exceeded.
			poll(t, func() bool { // one path loses packets
				text, _ = output(t, l, p.SourceNode, "ping", "-n", "-c", "1", "-W", "1", "-t", fmt.Sprint(i+1), "-I", p.Source.String(), p.Destination.String())
				return strings.Contains(strings.ToLower(text), "from "+hop.String())
			}, func() string { return fmt.Sprintf("path %s: hop %d is not %s:\n%s", p.Name, i+1, hop, text) })
		}
		if text := must(t, l, p.SourceNode, "ip", "route", "get", p.Destination.String()); !strings.Contains(text, "src "+p.Source.String()) {
			t.Errorf("path %s: %s", p.Name, text)
		}
	}
	env := l.Environment()
	for node, want := range map[string]string{"vm1": "cubic", "vm2": "reno"} {
		if got := env["net.ipv4.tcp_congestion_control@"+node]; !strings.HasPrefix(got, want) {
			t.Errorf("%s has congestion control %q, want %s: %v", node, got, want, env)
		}
	}
	if env["net.ipv4.tcp_no_metrics_save"] != "1" {
		t.Errorf("environment: %v", env)
	}
	counters, err := l.Counters(t.Context())
	testutil.OK(t, err)
	seen := 0
	for _, n := range counters.Nodes {
		for _, i := range n.Interfaces {
			if i.ReceivedPackets > 0 && i.SentPackets > 0 && i.SentBytes > 0 && i.ReceivedBytes > 0 {
				seen++
			}
		}
	}
	if want := 2 * len(built.Links); seen != want {
		t.Errorf("%d of %d interfaces counted traffic: %+v", seen, want, counters)
	}
	if len(counters.Links) != 3 {
		t.Errorf("three links, but the counters of %d", len(counters.Links))
	}
	for _, c := range counters.Links {
		if c.Forward.Frames < 20 || c.Backward.Frames < 20 || c.CPU <= 0 {
			t.Errorf("link %s:%s to %s:%s carried 20 pings, but counted %+v", c.A.Node, c.A.Interface, c.B.Node, c.B.Interface, c)
		}
	}
}

// A command that is cancelled while it is being started must not run on.
func TestExecCancelledAtOnce(t *testing.T) {
	needProgram(t, "sleep")
	l := startLab(t, chain(0, nil))
	random := rand.New(rand.NewPCG(3, 3))
	for range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.Int64N(int64(3*time.Millisecond))))
		if _, err := l.Exec(ctx, "source", Command{Argv: []string{"sleep", "1000"}}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a cancelled command says %v", err)
		}
		cancel()
	}
	if text, _ := output(t, l, "source", "sh", "-c", "grep -l '^sleep' /proc/[0-9]*/cmdline"); text != "" {
		t.Errorf("these run on: %s", text)
	}
}

// checkCancelled has a program in a node cancelled while it runs, with the child of its shell:
// otherwise the pipe stays open.
func checkCancelled(t *testing.T, run func(context.Context, Command) (int, error)) {
	t.Helper()
	r, w, err := os.Pipe()
	testutil.OK(t, err)
	defer r.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := run(ctx, Command{Argv: []string{"sh", "-c", "echo runs; sleep 1000 & sleep 1000"}, Stdout: w})
		w.Close()
		ended <- err
	}()
	if _, err := r.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled command says %v", err)
	}
	testutil.OK(t, r.SetReadDeadline(time.Now().Add(10*time.Second)))
	if _, err := r.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the program still holds its output: %v", err)
	}
}
