package idps

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hopbench/hopbench/internal/testutil"
)

func inspectorOf(t testing.TB, mode Mode, rules ...string) *Inspector {
	t.Helper()
	i, err := New(mustParse(t, strings.Join(rules, "\n")), mode)
	testutil.OK(t, err)
	return i
}

// numbered gives rules for all protocols with the options, whose sids count
// from 1.
func numbered(options ...string) []string {
	for i, o := range options {
		options[i] = fmt.Sprintf(`alert ip any any -> any any (%s sid:%d;)`, o, i+1)
	}
	return options
}

// alerted are the sids of all alerts, in order.
func alerted(i *Inspector) []uint32 {
	var sids []uint32
	for _, a := range i.Alerts() {
		sids = append(sids, a.SID)
	}
	return sids
}

// passes inspects a frame from an end of a connection that must go on.
func passes(t *testing.T, i *Inspector, from int, frame []byte) {
	t.Helper()
	before := bytes.Clone(frame)
	if pass, back, ahead := i.Inspect(from, frame); !pass || back != nil || ahead != nil {
		t.Fatalf("a frame does not pass (pass %v, back %d bytes, ahead %d bytes)", pass, len(back), len(ahead))
	}
	if !bytes.Equal(frame, before) {
		t.Fatal("a frame was changed")
	}
}

// handshake opens a connection.
func handshake(t *testing.T, i *Inspector, c *connection) {
	t.Helper()
	passes(t, i, 0, c.open())
	passes(t, i, 1, c.accept())
	passes(t, i, 0, c.confirm())
}

// tcpOf reads the addresses and the TCP header of a frame and checks its sums.
func tcpOf(t *testing.T, frame []byte) (p packet) {
	t.Helper()
	if k := p.read(frame); k != kindPacket || p.protocol != protocolTCP || len(p.payload) != 0 {
		t.Fatalf("not an empty TCP segment: kind %d, protocol %d, %d bytes", k, p.protocol, len(p.payload))
	}
	for _, b := range frame[:virtioHeaderBytes] {
		if b != 0 {
			t.Fatal("the virtio header asks for something")
		}
	}
	transport := frame[len(frame)-20:]
	if s := transportSum(p.source.Addr(), p.destination.Addr(), transport); s != 0xffff {
		t.Errorf("TCP checksum: the sum is %#x", s)
	}
	if p.source.Addr().Is4() {
		header := frame[len(frame)-40 : len(frame)-20]
		if s := sum(0, header); s != 0xffff {
			t.Errorf("IP checksum: the sum is %#x", s)
		}
	}
	return p
}

// The attack lies across a boundary, and the segment that completes it is
// stopped, whichever end sends it.
func TestDenies(t *testing.T) {
	for _, ipv6 := range []bool{false, true} {
		for from := range 2 {
			i := inspectorOf(t, Deny, rule(`content:"planted attack";`))
			c := newConnection(ipv6)
			c.vlan = ipv6
			handshake(t, i, c)
			passes(t, i, from, c.send(from, []byte("something before a planted")))
			expected := c.next[from]
			pass, back, ahead := i.Inspect(from, c.send(from, []byte(" attack and more")))
			if pass {
				t.Fatal("the attack passes")
			}
			b, a := tcpOf(t, back), tcpOf(t, ahead)
			if b.source != c.ends[1-from] || b.destination != c.ends[from] || b.flags != flagRST || b.sequence != c.next[1-from] {
				t.Errorf("the sender is sent %+v", b)
			}
			if a.source != c.ends[from] || a.destination != c.ends[1-from] || a.flags != flagRST|flagACK || a.sequence != expected || a.ack != c.next[1-from] {
				t.Errorf("the receiver is sent %+v where it waits for %d", a, expected)
			}
			if back[virtioHeaderBytes+5] != byte(from) || ahead[virtioHeaderBytes+5] != byte(1-from) {
				t.Error("a reset goes to the wrong device")
			}
			// Whatever comes later is stopped too, and its sender reset.
			pass, back, ahead = i.Inspect(1-from, c.send(1-from, []byte("late")))
			if pass || back == nil || ahead != nil {
				t.Errorf("a later segment: pass %v, back %d bytes, ahead %d bytes", pass, len(back), len(ahead))
			}
			if b := tcpOf(t, back); b.sequence != c.next[from] || b.destination != c.ends[1-from] {
				t.Errorf("the sender of a later segment is sent %+v", b)
			}
			reset := c.segment(from, c.next[from], flagRST, nil)
			if pass, back, _ := i.Inspect(from, reset); pass || back != nil {
				t.Error("a reset is answered, or passes")
			}
			counters := i.Counters()
			if counters.DeniedFlows != 1 || counters.AlertedFlows != 1 || counters.Alerts != 1 || counters.DeniedFrames != 3 {
				t.Errorf("%+v", counters)
			}
			if alerts := i.Alerts(); len(alerts) != 1 || !alerts[0].Denied || alerts[0].Source != c.ends[from] || alerts[0].Message != "m" {
				t.Errorf("%+v", alerts)
			}
			// The same ports may be used again.
			handshake(t, i, c)
			passes(t, i, from, c.send(from, []byte("harmless")))
		}
	}
}

// What came early was passed on, but nothing of it reaches the application
// before what completes the attack, and that is stopped.
func TestDeniesOutOfOrder(t *testing.T) {
	i := inspectorOf(t, Deny, rule(`content:"planted attack";`))
	c := newConnection(false)
	handshake(t, i, c)
	first, second, third := c.send(0, []byte("a plan")), c.send(0, []byte("ted att")), c.send(0, []byte("ack"))
	passes(t, i, 0, third)
	passes(t, i, 0, first)
	pass, _, ahead := i.Inspect(0, second)
	if pass {
		t.Fatal("the attack passes")
	}
	if a := tcpOf(t, ahead); a.sequence != 0xffff_fff1+6 {
		t.Errorf("the receiver is reset at %d", a.sequence)
	}
}

func TestDeniesDatagrams(t *testing.T) {
	i := inspectorOf(t, Deny, numbered(`content:"planted attack"; startswith;`)...)
	c := newDatagrams()
	passes(t, i, 0, c.send(0, []byte("a planted attack")))
	// A super-packet of three datagrams; the second begins with the attack.
	super := c.send(0, []byte("0123456789abcdef"+"planted attack.."+"end"))
	super[1] = virtioGSOUDPL4
	binary.NativeEndian.PutUint16(super[4:], 16)
	if pass, back, ahead := i.Inspect(0, super); pass || back != nil || ahead != nil {
		t.Errorf("pass %v, back %v, ahead %v", pass, back, ahead)
	}
	if pass, _, _ := i.Inspect(1, c.send(1, []byte("answer"))); pass {
		t.Error("an answer passes")
	}
	other := newDatagrams()
	other.ends[0] = netip.MustParseAddrPort("10.0.0.1:40001")
	passes(t, i, 0, other.send(0, []byte("harmless")))
}

func TestWhatIsNotInspectedPasses(t *testing.T) {
	i := inspectorOf(t, Deny, numbered(`content:"attack";`)...)
	c := newDatagrams()
	fragment := c.send(0, []byte("attack"))
	fragment[virtioHeaderBytes+ethernetHeaderBytes+6] |= 0x20
	passes(t, i, 0, fragment)
	c.protocol = 47
	passes(t, i, 0, c.packet(0, []byte("attack attack")))
	arp := append(make([]byte, virtioHeaderBytes+12), 8, 6, 'a', 't', 't', 'a', 'c', 'k')
	passes(t, i, 0, arp)
	passes(t, i, 0, arp[:12])
	// Padding behind a packet is no payload.
	c = newDatagrams()
	passes(t, i, 0, append(c.send(0, []byte("x")), "attack"...))
	got := i.Counters()
	if got.Fragments != 1 || got.OtherFrames != 3 || got.Bytes != 1 || got.Flows != 1 || got.Alerts != 0 {
		t.Errorf("%+v", got)
	}
}

func TestModes(t *testing.T) {
	i := inspectorOf(t, Off, rule(`content:"attack";`))
	c := newConnection(false)
	for _, step := range []struct {
		mode          Mode
		flows, alerts uint64
		pass          bool
	}{
		{Off, 0, 0, true}, {Alert, 1, 1, true}, {Off, 1, 1, true}, {Deny, 2, 2, false}, {Off, 2, 2, true},
		{Alert, 3, 3, true}, {Deny, 3, 3, true}, // what was reported once is not denied later
	} {
		if err := i.SetMode(step.mode); err != nil || i.Mode() != step.mode || i.Active() != (step.mode != Off) {
			t.Fatal(step, err)
		}
		pass, _, _ := i.Inspect(0, c.send(0, []byte("an attack")))
		got := i.Counters()
		if pass != step.pass || got.Flows != step.flows || got.Alerts != step.alerts || got.Mode != step.mode {
			t.Errorf("%+v: pass %v, %+v", step, pass, got)
		}
	}
	if err := i.SetMode("loud"); err == nil || i.Mode() != Deny {
		t.Error(err)
	}
}

// A stream that is come across in the middle has no known beginning.
func TestJoinedStream(t *testing.T) {
	i := inspectorOf(t, Alert, numbered(`content:"attack"; depth:6;`, `content:"attack"; flow:established,to_server;`, `content:"attack"; pcre:"/^attack/";`)...)
	c := newConnection(false)
	passes(t, i, 0, c.confirm()) // no flow begins with this
	passes(t, i, 1, c.send(1, []byte("harmless")))
	passes(t, i, 0, c.send(0, []byte("attack")))
	if got := alerted(i); !reflect.DeepEqual(got, []uint32{2}) {
		t.Errorf("alerts %v", got)
	}
}

// Bytes that the receiver has although they never came by leave a gap, behind
// which inspection goes on.
func TestGap(t *testing.T) {
	i := inspectorOf(t, Alert, numbered(`content:"planted attack";`, `content:"later";`)...)
	c := newConnection(false)
	handshake(t, i, c)
	passes(t, i, 0, c.send(0, []byte("planted")))
	c.send(0, []byte("missing")) // went another way
	passes(t, i, 1, c.send(1, nil))
	passes(t, i, 1, c.segment(1, c.next[1], flagACK, nil))
	passes(t, i, 0, c.send(0, []byte(" attack, later")))
	if got := alerted(i); !reflect.DeepEqual(got, []uint32{2}) {
		t.Errorf("alerts %v", got)
	}
	if n := i.Counters().LimitedFlows; n != 1 {
		t.Errorf("%d flows are counted as not inspected in full", n)
	}
}

func TestFlowsEnd(t *testing.T) {
	i := inspectorOf(t, Alert, rule(`content:"attack";`))
	current := func(want int, what string) {
		t.Helper()
		if got := i.Counters().Current; got != want {
			t.Errorf("%s: %d flows in the table, want %d", what, got, want)
		}
	}
	c := newConnection(false)
	handshake(t, i, c)
	passes(t, i, 0, c.send(0, []byte("request")))
	current(1, "open")
	passes(t, i, 0, c.finish(0))
	current(1, "half closed")
	passes(t, i, 1, c.send(1, []byte("answer")))
	passes(t, i, 1, c.finish(1))
	current(0, "closed")
	passes(t, i, 0, c.confirm())
	current(0, "last acknowledgement")

	handshake(t, i, c)
	passes(t, i, 0, c.segment(0, c.next[0]+5, flagRST, nil))
	current(1, "reset with a wrong number")
	passes(t, i, 0, c.segment(0, c.next[0], flagRST, nil))
	current(0, "reset")

	passes(t, i, 0, c.open())
	passes(t, i, 1, c.segment(1, 0, flagRST|flagACK, nil))
	current(0, "refused")
}

// A flow that a rule lets pass ends as any other, and one whose other direction does not come
// by here ends with what does.
func TestFlowsEndWithoutInspection(t *testing.T) {
	i := inspectorOf(t, Alert, `pass tcp any any -> any any (content:"friend"; sid:1;)`)
	c := newConnection(false)
	for range 2 {
		handshake(t, i, c)
		passes(t, i, 0, c.send(0, []byte("a friend")))
		missing := c.send(0, []byte("missing, "))
		passes(t, i, 0, c.send(0, []byte("early")))
		passes(t, i, 0, missing)
		passes(t, i, 0, c.finish(0))
		passes(t, i, 1, c.send(1, []byte("answer")))
		if got := i.Counters(); got.Current != 1 {
			t.Errorf("half closed: %d flows in the table", got.Current)
		}
		passes(t, i, 1, c.finish(1))
		if got := i.Counters(); got.Current != 0 || got.LimitedFlows != 0 {
			t.Errorf("a passed flow is over: %d flows in the table, %d limited", got.Current, got.LimitedFlows)
		}
	}
	passes(t, i, 0, c.open())
	passes(t, i, 0, c.confirm())
	passes(t, i, 0, c.send(0, []byte("request")))
	passes(t, i, 0, c.finish(0))
	if got := i.Counters().Current; got != 0 {
		t.Errorf("one direction is over, and no other comes by: %d flows in the table", got)
	}
}

func TestTableIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := inspectorOf(t, Alert, rule(`content:"attack";`))
		flows := func(from, to int) {
			for n := from; n < to; n++ {
				c := newConnection(false)
				c.ends[0] = netip.AddrPortFrom(c.ends[0].Addr(), uint16(n))
				c.ends[1] = netip.AddrPortFrom(c.ends[1].Addr(), uint16(60000+n/65536))
				passes(t, i, 0, c.open())
				c.send(0, []byte("missing"))
				passes(t, i, 0, c.send(0, []byte("early")))
			}
		}
		flows(0, 3*maxFlows)
		got := i.Counters()
		const most = shards * flowsPerShard
		if got.Current != most || got.LimitedFlows != 3*maxFlows-most {
			t.Errorf("%d flows in the table, %d lost their place, of %d", got.Current, got.LimitedFlows, 3*maxFlows)
		}
		if used, want := i.table.budget.used.Load(), int64(most*(5+pieceOverhead)); used != want {
			t.Errorf("%d bytes are charged, want %d", used, want)
		}
		time.Sleep(idleTimeout + time.Second)
		flows(3*maxFlows, 4*maxFlows)
		if again := i.Counters(); again.LimitedFlows != got.LimitedFlows {
			t.Errorf("%d flows that were silent for long count as limited", again.LimitedFlows-got.LimitedFlows)
		}
		testutil.OK(t, i.SetMode(Off))
		if used := i.table.budget.used.Load(); used != 0 || i.Counters().Current != 0 {
			t.Errorf("%d bytes are charged after all was forgotten", used)
		}
	})
}

// All flows have their place that are to have one, also if their ports are of one
// parity, which connect(2) uses up first.
func TestTableHoldsPortsOfOneParity(t *testing.T) {
	i := inspectorOf(t, Alert, rule(`content:"attack";`))
	for n := range maxFlows {
		c := newConnection(false)
		c.ends[0] = netip.AddrPortFrom(c.ends[0].Addr(), uint16(32768+2*n))
		passes(t, i, 0, c.open())
	}
	if got := i.Counters(); got.Current != maxFlows || got.LimitedFlows != 0 {
		t.Errorf("of %d flows %d are in the table, %d lost their place", maxFlows, got.Current, got.LimitedFlows)
	}
}

func TestAlertLogIsBounded(t *testing.T) {
	var l Inspector
	for n := range uint32(MaxAlerts + 10) {
		l.log.add(AlertRecord{SID: n})
	}
	if got := alerted(&l); len(got) != MaxAlerts || got[0] != 10 || got[MaxAlerts-1] != MaxAlerts+9 {
		t.Errorf("%d alerts, from %d to %d", len(got), got[0], got[len(got)-1])
	}
}

// Two threads, one for each direction, on the same flows, while the mode
// changes: nothing is reported of harmless traffic, and every attack is.
func TestBothDirectionsAtOnce(t *testing.T) {
	i := inspectorOf(t, Alert, numbered(`content:"attack"; flowbits:set,x;`, `content:"answer"; flowbits:isset,x;`)...)
	const flows = 500
	done := make(chan bool)
	for from := range 2 {
		go func() {
			defer func() { done <- true }()
			for n := range flows {
				c := newConnection(false)
				c.ends[0] = netip.AddrPortFrom(c.ends[0].Addr(), uint16(1000+n))
				frames := [][]byte{c.send(from, []byte("harmless att")), c.send(from, []byte("ack"))}
				if from == 0 {
					frames = append([][]byte{newConnection(false).open()}, frames...)
				}
				for _, f := range frames {
					if pass, _, _ := i.Inspect(from, f); !pass {
						t.Error("alert mode stops something")
					}
				}
				i.Counters()
			}
		}()
	}
	<-done
	<-done
	if got := i.Counters(); got.AlertedFlows != flows || got.Flows < flows {
		t.Errorf("%+v", got)
	}
}

// FuzzInspect: any bytes as frames leave frames as they are, answer with frames
// that make sense, and keep within bounds.
func FuzzInspect(f *testing.F) {
	c := newConnection(false)
	f.Add(c.open(), c.send(0, []byte("x attack")), c.accept(), true)
	c = newConnection(true)
	c.vlan = true
	f.Add(c.open(), c.send(0, []byte("x attack")), c.send(1, []byte("attack")), false)
	c = newDatagrams()
	f.Add(c.send(0, []byte("attack")), c.send(1, nil), c.send(0, []byte("attack")), true)
	f.Fuzz(func(t *testing.T, a, b, c []byte, swap bool) {
		i := inspectorOf(t, Deny, numbered(`content:"attack";`, `content:"a"; content:"b"; distance:1;`)...)
		for n, frame := range [][]byte{a, b, c, b, a} {
			before := bytes.Clone(frame)
			from := n & 1
			if swap {
				from = 1 - from
			}
			pass, back, ahead := i.Inspect(from, frame)
			if !bytes.Equal(frame, before) {
				t.Fatal("a frame was changed")
			}
			if pass && (back != nil || ahead != nil) {
				t.Fatal("a frame passes and is answered")
			}
			for _, frame := range [][]byte{back, ahead} {
				if frame == nil {
					continue
				}
				if p := tcpOf(t, frame); p.flags&flagRST == 0 {
					t.Fatalf("an answer with flags %#x", p.flags)
				}
			}
		}
		if used := i.table.budget.used.Load(); used < 0 || used > maxEarlyBytes {
			t.Fatalf("%d bytes are charged", used)
		}
		if err := i.SetMode(Off); err != nil || i.table.budget.used.Load() != 0 {
			t.Fatalf("%d bytes are left (%v)", i.table.budget.used.Load(), err)
		}
	})
}
