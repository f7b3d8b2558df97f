package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/idps"
	"github.com/hopbench/hopbench/internal/lab/plan"
	"github.com/hopbench/hopbench/internal/lab/topology"
	"github.com/hopbench/hopbench/internal/testutil"
)

const idpsExperiment = `
format: hopbench.experiment/1
name: idps-test
title: An idps on a path
endpoints:
  - name: client
  - name: server
source: client
destination: server
baseline: inspected
paths:
  - name: inspected
    title: through an idps
    hops:
      - {type: idps, name: idps, %s}
  - name: plain
    hops:
      - {type: link}
tests:
  - {name: tcp, kind: tcp, duration: 1s}
`

// idpsTopology lays an experiment out whose idps has the keys; files are
// relative to dir.
func idpsTopology(t testing.TB, dir, keys string) (Topology, []Path, error) {
	t.Helper()
	e, err := experiment.Load(filepath.Join(dir, "test.yaml"), []byte(fmt.Sprintf(idpsExperiment, keys)))
	testutil.OK(t, err)
	return FromExperiment(e)
}

func TestLaysIDPSOut(t *testing.T) {
	built, paths, err := idpsTopology(t, ".", "mode: deny")
	testutil.OK(t, err)
	steps, err := plan.Of(built)
	testutil.OK(t, err)
	if want := "emulate inspected/idps:to-destination--server:inspected both ways unimpaired, idps deny\n"; !strings.Contains(steps.String(), want) {
		t.Errorf("no line %q in\n%s", want, steps)
	}
	if len(paths[0].Hops) != 2 || paths[0].ReceivedTTL != InitialTTL-1 {
		t.Errorf("%+v", paths[0])
	}
	without := built
	without.Links = slices.Clone(built.Links)
	without.Links[1].Emulation = nil
	wrong := built
	wrong.Links = slices.Clone(built.Links)
	wrong.Links[1].IDPS = &topology.IDPS{Mode: "loud", Rules: "missing.rules"}
	for want, built := range map[string]Topology{"only a link emulator": without, `called "loud"`: wrong, "lacks the rule file missing.rules": wrong} {
		if err := built.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A rule file is read before anything is built.
func TestRuleFile(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) {
		t.Helper()
		testutil.OK(t, os.WriteFile(filepath.Join(dir, "my.rules"), []byte(text), 0o600))
	}
	const keys = "rule_file: my.rules"
	if _, _, err := idpsTopology(t, dir, keys); err == nil || !strings.Contains(err.Error(), `test.yaml:15: the rule file of hop "idps" cannot be used: read rule file`) {
		t.Errorf("a file that is missing: %v", err)
	}
	write("# fine so far\nalert tcp any any -> any 99999 (sid:1;)\nalert\n")
	_, _, err := idpsTopology(t, dir, keys)
	if err == nil || !strings.Contains(err.Error(), "my.rules:2: ") || !strings.Contains(err.Error(), "my.rules:3: ") {
		t.Errorf("mistakes: %v", err)
	}
	write("alert http any any -> any any (content:\"x\"; http_uri; sid:1;)\nalert tcp any any -> any any (content:\"of my own\"; sid:2;)\n")
	built, _, err := idpsTopology(t, dir, keys)
	testutil.OK(t, err)
	l := startLab(t, built)
	if facts := strings.Join(l.Facts(), "\n"); !strings.Contains(facts, "1 rules loaded, 1 not") || !strings.Contains(facts, "http_uri (1)") {
		t.Errorf("what was not loaded is not told: %q", facts)
	}
	if c := idpsCounters(t, l); c.Rules != 1 || c.Mode != idps.Alert {
		t.Errorf("%+v", c)
	}
	if got := attack(t, l, "client", "of my", " own"); got != [2]string{"all", "all"} {
		t.Errorf("alert mode: %q", got)
	}
	if c := idpsCounters(t, l); c.AlertedFlows != 1 {
		t.Errorf("%+v", c)
	}
}

// The proof of the hop: an attack is planted across the boundary of two
// segments in the middle of a stream, in either direction, in every mode.
func TestIDPSSeesAndStops(t *testing.T) {
	for name, keys := range map[string]string{"direct": "mode: off", "queued": "mode: off, delay: 2ms, rate: 400Mbit"} {
		t.Run(name, func(t *testing.T) {
			built, paths, err := idpsTopology(t, ".", keys)
			testutil.OK(t, err)
			l := startLab(t, built)
			const half = len(idps.TestString) / 2
			var flows, alerts, denied uint64
			for _, mode := range []idps.Mode{idps.Off, idps.Alert, idps.Deny, idps.Off, idps.Deny} {
				connectionsOver(t, l, "client", "server")
				testutil.OK(t, l.SetMode(t.Context(), "inspected/idps", mode))
				for _, sender := range []string{"client", "server"} {
					want := [2]string{"all", "all"}
					if mode != idps.Off {
						flows++
						alerts++
					}
					if mode == idps.Deny {
						denied++
						want = [2]string{"reset", "reset"}
					}
					if got := attack(t, l, sender, idps.TestString[:half], idps.TestString[half:]); got != want {
						t.Errorf("mode %s, from %s: sender and receiver say %q, want %q", mode, sender, got, want)
					}
					if got := attack(t, l, sender, "harmless", "text"); got != [2]string{"all", "all"} {
						t.Errorf("mode %s, from %s: of harmless traffic sender and receiver say %q", mode, sender, got)
					}
					if mode != idps.Off {
						flows++
					}
				}
				c := idpsCounters(t, l)
				if c.Mode != mode || c.Flows != flows || c.AlertedFlows != alerts || c.DeniedFlows != denied || c.LimitedFlows != 0 {
					t.Errorf("mode %s: %+v, want %d flows, %d with alerts, %d denied", mode, c, flows, alerts, denied)
				}
			}
			records, err := l.Alerts(t.Context(), "inspected/idps")
			if err != nil || len(records) != int(alerts) {
				t.Fatalf("%d alerts are kept of %d, %v", len(records), alerts, err)
			}
			for i, r := range records {
				from := paths[0].Source
				if i%2 == 1 {
					from = paths[0].Destination
				}
				if r.SID != 1000001 || r.Source.Addr() != from || r.Protocol != "tcp" || time.Since(r.Time) > time.Minute {
					t.Errorf("alert %d: %+v", i, r)
				}
			}
		})
	}
}

// connectionsOver waits until the nodes have no TCP connections any more but in
// TIME-WAIT. The last segments of one may be on their way after its programs
// have ended, and an inspection that is switched on meanwhile takes them for a
// flow of their own.
func connectionsOver(t *testing.T, l *Lab, nodes ...string) {
	t.Helper()
	const timeWait = "06" // TCP_TIME_WAIT of net/tcp_states.h
	for _, node := range nodes {
		var open string
		poll(t, func() bool {
			open = ""
			for line := range strings.Lines(must(t, l, node, "cat", "/proc/net/tcp", "/proc/net/tcp6")) {
				if fields := strings.Fields(line); len(fields) > 3 && fields[3] != timeWait && fields[3] != "st" {
					open += line
				}
			}
			return open == ""
		}, func() string { return fmt.Sprintf("%s has connections still:\n%s", node, open) })
	}
}

// The idps is on the path also where the hop behind it is bypassed.
func TestIDPSBeforeBypass(t *testing.T) {
	text := strings.ReplaceAll(fmt.Sprintf(idpsExperiment, "mode: deny"), "  - name: plain", `      - {type: router, name: r}
  - {name: short, variant_of: inspected, bypass: [r]}
  - name: plain`)
	e, err := experiment.Load("test.yaml", []byte(text))
	testutil.OK(t, err)
	l, paths := startExperiment(t, e)
	address := paths[0].Destination.String() + ":7000"
	const half = len(idps.TestString) / 2
	alerts := 0
	for _, mode := range []idps.Mode{idps.Deny, idps.Off, idps.Alert} {
		for _, path := range paths[:2] {
			connectionsOver(t, l, "client", "server")
			testutil.OK(t, l.Switch(t.Context(), path.Name))
			testutil.OK(t, l.SetMode(t.Context(), "inspected/idps", mode))
			want := [2]string{"all", "all"}
			if mode == idps.Deny {
				want = [2]string{"reset", "reset"}
			}
			if mode != idps.Off {
				alerts++
			}
			if got := exchangeAt(t, l, address, "client", idps.TestString[:half], idps.TestString[half:], talkBytes); got != want {
				t.Errorf("mode %s on path %s: %q, want %q", mode, path.Name, got, want)
			}
		}
	}
	records, err := l.Alerts(t.Context(), "inspected/idps")
	if err != nil || len(records) != alerts || !slices.IsSortedFunc(records, func(a, b idps.AlertRecord) int { return a.Time.Compare(b.Time) }) {
		t.Errorf("alerts %+v, %v, want %d", records, err, alerts)
	}
}

func TestSetModeOfWhatIsNoIDPS(t *testing.T) {
	built, _, err := idpsTopology(t, ".", "mode: alert")
	testutil.OK(t, err)
	l := startLab(t, built)
	if err := l.SetMode(t.Context(), "client", idps.Deny); err == nil || !strings.Contains(err.Error(), "no such idps") {
		t.Error(err)
	}
	if err := l.SetMode(t.Context(), "inspected/idps", "loud"); err == nil || !strings.Contains(err.Error(), `called "loud"`) {
		t.Error(err)
	}
	if c := idpsCounters(t, l); c.Mode != idps.Alert {
		t.Errorf("%+v", c)
	}
}

func idpsCounters(t *testing.T, l *Lab) idps.Counters {
	t.Helper()
	counters, err := l.Counters(t.Context())
	testutil.OK(t, err)
	for _, c := range counters.Links {
		if c.IDPS != nil {
			return *c.IDPS
		}
	}
	t.Fatal("no link has counters of an inspection")
	return idps.Counters{}
}

// talkBytes is how much surrounds an attack on either side: many segments.
const talkBytes = 300_000

// attack opens a connection from client to server, over which sender sends the
// two parts with a segment boundary between. It returns what sender and receiver
// say: "all" was delivered, or "reset".
func attack(t testing.TB, l *Lab, sender, first, second string) (said [2]string) {
	t.Helper()
	return exchange(t, l, sender, first, second, talkBytes)
}

// exchange is attack with so many bytes before the first part, and as many
// behind the second.
func exchange(t testing.TB, l *Lab, sender, first, second string, around int) (said [2]string) {
	t.Helper()
	return exchangeAt(t, l, l.topology.Links[1].B.Address.Addr().String()+":7000", sender, first, second, around)
}

// exchangeAt is exchange with a server at an address.
func exchangeAt(t testing.TB, l *Lab, address, sender, first, second string, around int) (said [2]string) {
	t.Helper()
	r, w, err := os.Pipe()
	testutil.OK(t, err)
	defer r.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server := make(chan error, 1)
	go func() {
		defer w.Close()
		_, err := l.Exec(ctx, "server", Command{Argv: talkCommand("listen", address, sender == "server", first, second, around), Stdout: w, Stderr: w})
		server <- err
	}()
	listening := make([]byte, len("listening\n"))
	if _, err := io.ReadFull(r, listening); err != nil {
		t.Fatalf("the server does not listen: %v", err)
	}
	said[0] = strings.TrimSpace(must(t, l, "client", talkCommand("dial", address, sender == "client", first, second, around)...))
	rest, err := io.ReadAll(r)
	testutil.OK(t, err)
	testutil.OK(t, <-server)
	said[1] = strings.TrimSpace(string(rest))
	if sender == "server" {
		said[0], said[1] = said[1], said[0]
	}
	return said
}

func talkCommand(how, address string, sends bool, first, second string, around int) []string {
	role := "receive"
	if sends {
		role = "send"
	}
	return []string{selfExecutable, "talk", how, address, role, first, second, strconv.Itoa(around)}
}

// talk is one end of what attack arranges. It prints how it ended.
func talk(args []string) int {
	how, address, role, first, second := args[0], args[1], args[2], args[3], args[4]
	around, err := strconv.Atoi(args[5])
	if err != nil {
		fmt.Println(err)
		return 0
	}
	conn, err := talkConn(how, address)
	if err != nil {
		fmt.Println(err)
		return 0
	}
	defer conn.Close()
	filler := bytes.Repeat([]byte("0123456789"), around/10)
	before, after := append(slices.Clone(filler), first...), append([]byte(second), filler...)
	if role == "send" {
		err = talkSend(conn, before, after)
	} else {
		err = talkReceive(conn, before, after)
	}
	switch {
	case err == nil:
		fmt.Println("all")
	case isReset(err):
		fmt.Println("reset")
	default:
		fmt.Println(err)
	}
	return 0
}

func isReset(err error) bool {
	// A write after the reset was read is refused by the kernel itself.
	return errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE)
}

func talkConn(how, address string) (net.Conn, error) {
	var conn net.Conn
	var err error
	if how == "dial" {
		conn, err = net.DialTimeout("tcp", address, 10*time.Second)
	} else {
		var listener net.Listener
		if listener, err = net.Listen("tcp", address); err != nil {
			return nil, err
		}
		defer listener.Close()
		fmt.Println("listening")
		conn, err = listener.Accept()
	}
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(time.Now().Add(30 * time.Second))
}

// talkSend waits between the parts until the first has arrived, so that they
// are in different segments, and at the end until all has.
func talkSend(conn net.Conn, parts ...[]byte) error {
	for _, part := range parts {
		if _, err := conn.Write(part); err != nil {
			return err
		}
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			return err
		}
	}
	return nil
}

func talkReceive(conn net.Conn, parts ...[]byte) error {
	for _, part := range parts {
		got := make([]byte, len(part))
		if _, err := io.ReadFull(conn, got); err != nil {
			return err
		}
		if !bytes.Equal(got, part) {
			return errors.New("other bytes arrived than were sent")
		}
		if _, err := conn.Write([]byte{1}); err != nil {
			return err
		}
	}
	return nil
}
