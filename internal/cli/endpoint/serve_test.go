package endpoint

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func TestWhoIsServed(t *testing.T) {
	for _, c := range []struct {
		token            bool
		flags            serveFlags
		hopbench, iperf3 string
	}{
		{false, serveFlags{}, "on this machine", "the same"},
		{false, serveFlags{open: true}, "anyone", "the same"},
		{true, serveFlags{}, "prove the token", "nobody"},
		{true, serveFlags{open: true}, "prove the token", "nobody"},
		{true, serveFlags{iperf3Open: true}, "prove the token", "anyone"},
	} {
		text := whoIsServed(c.token, c.flags)
		hopbench, iperf3, _ := strings.Cut(text, "\n")
		if !strings.Contains(hopbench, c.hopbench) || !strings.Contains(iperf3, c.iperf3) {
			t.Errorf("token %v, %+v:\n%s", c.token, c.flags, text)
		}
	}
}

// Not every system says how much memory there is.
func TestWhatIsAllowed(t *testing.T) {
	for bytes, want := range map[int64]string{0: "any amount of memory", 2e9: "2.00 GB of memory"} {
		limits := admission.Cost{admission.Tests: 64, admission.Descriptors: 100, admission.Threads: 10, admission.Bytes: bytes}
		if got := whatIsAllowed(probe.Limits{}, limits); !strings.Contains(got, want) {
			t.Errorf("with %d bytes: %s", bytes, got)
		}
	}
}

func TestLinesOfAServersTests(t *testing.T) {
	var b bytes.Buffer
	l := &serveLog{w: &b}
	event := probe.TestEvent{Client: netip.MustParseAddr("192.0.2.9"), Spec: measurement.Spec{Kind: measurement.TCP, Flows: 4, Direction: measurement.Receive}.Defaults()}
	l.event(event)
	event.Ended, event.Elapsed, event.Bytes = true, 10400*time.Millisecond, 13e9
	l.event(event)
	event.Err = errors.New("limit: \x1b[31mred\nherring")
	l.event(event)
	event.Vanished = true
	l.event(event)
	for i, want := range []string{
		`^\d\d:\d\d:\d\d  192\.0\.2\.9  tcp, 4 flows, from here, 10s: began$`,
		`: done in 10\.4 s, 10\.0 Gbit/s$`, `: failed after 10\.4 s: limit:  \[31mred herring$`, `: closed by the client after 10\.4 s$`,
	} {
		line := strings.Split(b.String(), "\n")[i]
		if !regexp.MustCompile(want).MatchString(line) {
			t.Errorf("%q, want %s", line, want)
		}
	}
}

// A server for one client ends two seconds after that client's last test, not
// between the tests of its profile.
func TestOneOffWaitsForTheWholeVisit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		idle := make(chan time.Duration, 9)
		began := time.Now()
		l := &serveLog{w: io.Discard, quiet: true, idle: func() { idle <- time.Since(began) }}
		defer l.end()
		for range 3 {
			l.event(probe.TestEvent{})
			time.Sleep(5 * time.Second)
			l.event(probe.TestEvent{Ended: true})
			time.Sleep(oneOffGrace / 2)
		}
		if len(idle) > 0 {
			t.Fatalf("it ended after %v", <-idle)
		}
		if got, want := <-idle, 3*5*time.Second+2*oneOffGrace/2+oneOffGrace; got != want {
			t.Errorf("it ended after %v, want %v", got, want)
		}
	})
}

func TestServerThatIsNotOneOffGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &serveLog{w: io.Discard}
		l.event(probe.TestEvent{})
		l.event(probe.TestEvent{Ended: true})
		if l.timer != nil {
			t.Error("it is about to end")
		}
	})
}
