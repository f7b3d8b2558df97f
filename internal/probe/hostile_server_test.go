package probe_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/probetest"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/testutil"
)

// lieIn replaces the value at a path of one type of frame.
type lieIn struct {
	frame protocol.Type
	path  string
	value any
}

func (l lieIn) tell(to net.Conn, kind protocol.Type, payload []byte) bool {
	frame(to, kind, probetest.Changed(payload, l.path, l.value))
	return false
}

// lies are what a server may say, in every frame that it sends.
func serverLies() []lieIn {
	long := strings.Repeat("A\u202e\x1b", 100_000)
	all := []lieIn{
		{protocol.TypeChallenge, "nonce", "AAAA"},
		{protocol.TypeChallenge, "nonce", 5},
		{protocol.TypeAccept, "mac", "AAAA"},
		{protocol.TypeReady, "", []int{1}},
		{protocol.TypeReady, "client", probetest.Forged},
		{protocol.TypeReady, "server", probetest.Forged},
		{protocol.TypeReady, "server", "192.0.2.1:1"}, // a lie that could be true
		{protocol.TypeReady, "cookie", "AAAA"},
		{protocol.TypeReady, "cookie", nil},
		{protocol.TypeReady, "placement", long},
		{protocol.TypeReady, "cpus", []int{-1}},
		{protocol.TypeReady, "cpus", []int{1024}},
		{protocol.TypeReady, "mss_bytes", -1},
		{protocol.TypeReady, "received_ttl", 1 << 40},
		{protocol.TypeReady, "ftp.port", 0},
		{protocol.TypeReady, "ftp.port", 99999},
		{protocol.TypeReady, "ftp.user", probetest.Forged},
		{protocol.TypeReady, "ftp.path", "/x\r\nDELE /y"},
		{protocol.TypeReached, "client", probetest.Forged},
		{protocol.TypeReached, "client", 7},
		{protocol.TypeReceived, "bins.width_seconds", 0},
		{protocol.TypeReceived, "bins.bytes", []int{1}},
		{protocol.TypeReceived, "bins.bytes.0", 1e14},
		{protocol.TypeReceived, "bins.bytes.1", -5},
		{protocol.TypeReceived, "bins", nil},
		{protocol.TypeReceived, "packets", nil},
		{protocol.TypeReceived, "packets.sent", 1 << 50},
		{protocol.TypeReceived, "packets.received", 1 << 50},
		{protocol.TypeReceived, "packets.received", -1},
		{protocol.TypeReceived, "packets.bins.0", 1e12},
		{protocol.TypeSent, "bytes", 0},
		{protocol.TypeSent, "bytes", -1},
		{protocol.TypeSent, "measured_packets", 0},
		{protocol.TypeSent, "measured_packets", 1 << 62},
		{protocol.TypeSent, "packet_bytes", 0},
		{protocol.TypeSent, "final.rtt_seconds", -1},
		{protocol.TypeSent, "final.sent_bytes", -1},
		{protocol.TypeSent, "info.0.at_seconds", 1e6},
		{protocol.TypeSent, "info.0.congestion_window_bytes", "wide"},
		{protocol.TypeReport, "answered", 1 << 49},
		{protocol.TypeReport, "answered", -1},
		{protocol.TypeReport, "answered", "all"},
		{protocol.TypeReport, "transfers", []int{}},
		{protocol.TypeReport, "transfers.0.offset", 1 << 40},
		{protocol.TypeReport, "transfers.0.bytes", 1},
		{protocol.TypeReport, "transfers.0.bytes", 1 << 49},
		{protocol.TypeReport, "transfers.0.took_seconds", 1e6},
		{protocol.TypeReport, "transfers.0.took_seconds", -1},
		{protocol.TypeReport, "transfers.0.crc32", 1},
		{protocol.TypeReport, "transfers.0.bins.bytes.0", 1e12},
		{protocol.TypeReport, "transfers.0.client", probetest.Forged},
		{protocol.TypeReport, "effective.request_bytes", "none"},
	}
	for _, f := range []protocol.Type{protocol.TypeReceived, protocol.TypeSent, protocol.TypeReport} {
		all = append(all,
			lieIn{f, "host.at_seconds", []float64{3, 2, 1}},
			lieIn{f, "host.at_seconds.0", 1e300},
			lieIn{f, "host.busy_seconds", []float64{1}},
			lieIn{f, "host.total_seconds.0", 1e300},
			lieIn{f, "host.cpus", -1},
			lieIn{f, "host.host", long},
			lieIn{f, "host.host_id", probetest.Forged},
			lieIn{f, "host.drops", []measurement.Drop{{Place: probetest.Forged, Packets: 5}, {Place: "x", Packets: 1e300}}},
			lieIn{f, "host.drops", []measurement.Drop{{Place: probetest.Forged, Packets: 5}}},
			lieIn{f, "facts", []string{probetest.Forged, long, probetest.Forged}},
			lieIn{f, "facts", slices.Repeat([]string{"so it is"}, 10_000)},
			lieIn{f, "facts", probetest.Forged},
			lieIn{f, "effective", map[string]string{probetest.Forged: long, "congestion_control": probetest.Forged}},
		)
	}
	return all
}

// ended checks that a test with a liar gave an error with a reason or an outcome
// that can be.
func ended(t testing.TB, what string, out measurement.Outcome, err error) {
	t.Helper()
	if err == nil {
		probetest.Possible(t, what, out)
		return
	}
	known, ok := errors.AsType[*probe.Error](err)
	if !ok || known.Reason == "" || known.Reason == probe.Cancelled {
		t.Errorf("%s: %v", what, err)
	}
	for line := range strings.SplitSeq(err.Error(), "\n") { // errors.Join makes lines
		probetest.Printed(t, what, line)
	}
}

// Whatever a server says in whatever frame, the client's test ends in its time, with
// a reason, or with an outcome that can be.
func TestServersThatLie(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{})
	specs := probetest.Served(t)
	sent := framesOf(t, target, specs)
	var group errgroup.Group
	group.SetLimit(64)
	for i, lie := range serverLies() {
		liar := startLiar(t, target, lie.tell, lie.frame)
		if len(sent[lie.frame]) == 0 {
			t.Errorf("no server sends %#x, which was to lie", byte(lie.frame))
		}
		for j, name := range sent[lie.frame] {
			if (i+j)%min(testutil.Repeat(2, 1), len(sent[lie.frame])) != 0 { // each lie is told
				continue
			}
			group.Go(func() error {
				out, err := probe.Run(servertest.Context(t), probe.Request{Spec: specs[name], Target: liar}, nil)
				ended(t, fmt.Sprintf("%s, %#x %s = %.40v", name, byte(lie.frame), lie.path, lie.value), out, err)
				return nil
			})
		}
	}
	_ = group.Wait() // failures were reported
}

// serverFrames are the types of frames that a server sends.
var serverFrames = []protocol.Type{
	protocol.TypeChallenge, protocol.TypeAccept, protocol.TypeReady, protocol.TypeReached,
	protocol.TypeReceived, protocol.TypeSent, protocol.TypeReport, protocol.TypeStop,
}

// framesOf are the names of the tests in which an honest server sends a type of frame, and of
// those that a busy machine did not let end.
func framesOf(t *testing.T, target netip.AddrPort, specs map[string]measurement.Spec) map[protocol.Type][]string {
	t.Helper()
	var mu sync.Mutex
	sent := map[protocol.Type][]string{}
	var group errgroup.Group
	group.SetLimit(16)
	for name, spec := range specs {
		saw := func(kinds ...protocol.Type) {
			mu.Lock()
			defer mu.Unlock()
			for _, kind := range kinds {
				if !slices.Contains(sent[kind], name) {
					sent[kind] = append(sent[kind], name)
				}
			}
		}
		through := startLiar(t, target, func(to net.Conn, kind protocol.Type, payload []byte) bool {
			saw(kind)
			frame(to, kind, payload)
			return false
		}, serverFrames...)
		group.Go(func() error {
			if _, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: through}, nil); err != nil {
				saw(serverFrames...)
			}
			return nil
		})
	}
	_ = group.Wait() // failures were reported
	mu.Lock()        // what passes on frames may be about to see one
	defer mu.Unlock()
	names := map[protocol.Type][]string{}
	for kind, of := range sent {
		names[kind] = slices.Sorted(slices.Values(of))
	}
	return names
}

// A lie that no test could be ends it as a breach of the protocol.
func TestLiesAreToldAsSuch(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{})
	specs := probetest.Served(t)
	lies := map[string]lieIn{
		"tcp":                   {protocol.TypeReceived, "bins.bytes.0", 1e14},
		"tcp direction=receive": {protocol.TypeSent, "bytes", 1},
		"tcp direction=both":    {protocol.TypeSent, "final.rtt_seconds", -1},
		"udp":                   {protocol.TypeReceived, "packets.sent", 1 << 50},
		"udp direction=receive": {protocol.TypeSent, "measured_packets", 1},
		"pps":                   {protocol.TypeReceived, "packets.bins.0", 1e12},
		"crr":                   {protocol.TypeReport, "answered", 1 << 49},
		"load":                  {protocol.TypeReady, "server", "nowhere"},
		"mtu":                   {protocol.TypeReached, "client", "nowhere"},
		"ftp":                   {protocol.TypeReport, "transfers.0.bytes", 1},
		"ftp direction=send":    {protocol.TypeReport, "transfers.0.took_seconds", 1e6},
	}
	for name := range specs {
		if _, has := lies[name]; !has {
			lies[name] = lieIn{protocol.TypeReady, "client", "nowhere"}
		}
	}
	for name, lie := range lies {
		liar := startLiar(t, target, lie.tell, lie.frame)
		_, err := probe.Run(servertest.Context(t), probe.Request{Spec: specs[name], Target: liar}, nil)
		if e, ok := errors.AsType[*probe.Error](err); !ok || e.Reason != probe.Protocol {
			t.Errorf("%s, %#x %s = %v: %v", name, byte(lie.frame), lie.path, lie.value, err)
		}
	}
}

// Frames that are none, come twice or never end do no more than end the test.
func TestServersOfWrongFrames(t *testing.T) {
	t.Parallel() // it waits for most of its time
	target := servertest.Serve(t, probe.ServerOptions{})
	huge, err := json.Marshal(protocol.RemoteError{Reason: probetest.Forged, Message: strings.Repeat(probetest.Forged, 10_000)})
	testutil.OK(t, err)
	over := servertest.Context(t).Done()
	ways := map[string]lie{
		"an error with escapes": func(to net.Conn, _ protocol.Type, _ []byte) bool { frame(to, protocol.TypeError, huge); return true },
		"another frame": func(to net.Conn, _ protocol.Type, payload []byte) bool {
			frame(to, protocol.TypeHello, payload)
			return false
		},
		"no JSON": func(to net.Conn, kind protocol.Type, _ []byte) bool {
			frame(to, kind, []byte(probetest.Forged))
			return false
		},
		"more than may be": func(to net.Conn, kind protocol.Type, _ []byte) bool {
			_, _ = to.Write([]byte{byte(kind), 0, 0, 0, 0xff, 0, 0, 0})
			return true
		},
		"twice": func(to net.Conn, kind protocol.Type, payload []byte) bool {
			frame(to, kind, payload)
			frame(to, kind, payload)
			return false
		},
		"data without end": func(to net.Conn, kind protocol.Type, payload []byte) bool {
			frame(to, kind, payload)
			block := make([]byte, 64<<10)
			for {
				var header [protocol.HeaderBytes]byte
				protocol.PutHeader(header[:], protocol.TypeData, len(block))
				if _, err := to.Write(append(header[:], block...)); err != nil {
					return true
				}
			}
		},
		"a trickle": func(to net.Conn, kind protocol.Type, _ []byte) bool {
			_, _ = to.Write([]byte{byte(kind), 0, 0, 0, 0, 0x0f, 0, 0})
			for tick := time.NewTicker(50 * time.Millisecond); ; {
				select {
				case <-tick.C:
				case <-over:
					return true
				}
				if _, err := to.Write([]byte{' '}); err != nil {
					tick.Stop()
					return true
				}
			}
		},
	}
	if !testutil.AtLength() {
		delete(ways, "a trickle") // each takes as long as the longest deadline
	}
	specs := probetest.Served(t)
	sent := framesOf(t, target, specs)
	var group errgroup.Group
	group.SetLimit(256) // most wait
	for way, lie := range ways {
		for _, kind := range serverFrames {
			liar := startLiar(t, target, lie, kind)
			for j, name := range sent[kind] {
				if (len(way)+j)%testutil.Repeat(2, 1) != 0 {
					continue
				}
				group.Go(func() error {
					start := time.Now()
					out, err := probe.Run(servertest.Context(t), probe.Request{Spec: specs[name], Target: liar}, nil)
					ended(t, fmt.Sprintf("%s, %#x %s", name, byte(kind), way), out, err)
					t.Logf("%s, %#x %s: %v %.200v", name, byte(kind), way, time.Since(start).Round(time.Millisecond), err)
					return nil
				})
			}
		}
	}
	_ = group.Wait() // failures were reported
}

// Many flows that end with frames as large as any may be are not kept in memory.
func TestLargestReports(t *testing.T) {
	large := make([]byte, protocol.MaxControl)
	for i := range large {
		large[i] = ' '
	}
	target := servertest.Serve(t, probe.ServerOptions{})
	for kind, direction := range map[protocol.Type]measurement.Direction{protocol.TypeReceived: measurement.Send, protocol.TypeSent: measurement.Receive} {
		liar := startLiar(t, target, func(to net.Conn, kind protocol.Type, payload []byte) bool {
			frame(to, kind, append(payload, large[len(payload):]...)) // white space is JSON
			return false
		}, kind)
		for _, flows := range servertest.FewAndMany {
			_, err := probe.Run(servertest.Context(t), probe.Request{Spec: servertest.ShortTCP(flows, direction), Target: liar}, nil)
			e, ok := errors.AsType[*probe.Error](err)
			if many := flows > session.ThreadConnections; many != (ok && e.Reason == probe.Protocol) || !many && err != nil {
				t.Errorf("%d flows %s: %v", flows, direction, err)
			}
		}
	}
}
