package admission

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func address(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}) }

func TestBudget(t *testing.T) {
	limits := Cost{Tests: 8, Threads: 100}
	type ask struct {
		client netip.Addr
		proven bool
		cost   Cost
		want   string // part of the refusal; "" is granted
	}
	six := netip.MustParseAddr
	for _, c := range []struct {
		name string
		o    Options
		asks []ask
	}{
		{"all for one", Options{Limits: limits}, []ask{
			{address(1), false, Cost{Tests: 8}, ""},
			{address(2), false, Cost{Tests: 1}, "of this server's 8 tests at the same time not 1 are left"},
		}},
		{"more than there is", Options{Limits: limits}, []ask{
			{address(1), false, Cost{Tests: 1, Threads: 101}, "this takes 101 threads for tests, and this server has 100"},
			{address(1), false, Cost{Tests: 1, Threads: 100}, ""},
		}},
		{"a share", Options{Limits: limits, Shared: true}, []ask{
			{address(2), false, Cost{Threads: 76}, "gives one client at most 75 of 100"},
			{address(1), false, Cost{Tests: 4, Threads: 75}, ""},
			{address(1), false, Cost{Threads: 1}, "your address may have 0 more"},
			{address(2), false, Cost{Threads: 7}, "your address may have 6 more"},
			{address(2), false, Cost{Threads: 6}, ""},
			{address(1), false, Cost{Tests: 2}, ""}, // the other has none
			{address(1), false, Cost{Tests: 1}, "your address may have 0 more"},
			{address(3), false, Cost{Tests: 1, Threads: 1}, ""},
			{address(3), false, Cost{Tests: 1}, "your address may have 0 more"},
			{address(4), false, Cost{Tests: 1}, ""},
			{address(5), false, Cost{Tests: 1}, "not 1 are left"},
		}},
		{"a /64 is one client", Options{Limits: limits, Shared: true}, []ask{
			{six("2001:db8::1"), false, Cost{Tests: 6}, ""},
			{six("2001:db8::ffff:1"), false, Cost{Tests: 1}, "your address may have 0 more"},
			{six("2001:db8:0:1::1"), false, Cost{Tests: 1}, ""},
		}},
		{"an address of IPv4 is one, however written", Options{Limits: limits, Shared: true}, []ask{
			{address(1), false, Cost{Tests: 6}, ""},
			{six("::ffff:192.0.2.1"), false, Cost{Tests: 1}, "your address may have 0 more"},
		}},
		{"a reserve", Options{Limits: limits, Reserved: true}, []ask{
			{address(1), false, Cost{Tests: 4}, ""},
			{address(2), false, Cost{Tests: 1}, "not 1 are left"},
			{address(2), false, Cost{Tests: 5}, "at most 4 of 8"},
			{address(2), true, Cost{Tests: 4}, ""},
		}},
		{"no bound", Options{Shared: true}, []ask{{address(1), false, Cost{Tests: 1 << 40, Bytes: 1 << 60}, ""}}},
		{"few", Options{Limits: Cost{Tests: 1}, Shared: true}, []ask{{address(1), false, Cost{Tests: 1}, ""}}},
	} {
		b := NewBudget(c.o)
		for i, a := range c.asks {
			_, err := b.Take(a.client, a.proven, a.cost)
			if a.want == "" && err != nil || a.want != "" && (err == nil || !strings.Contains(err.Error(), a.want)) {
				t.Errorf("%s, %d: %v, want %q", c.name, i, err, a.want)
			}
		}
	}
}

func TestClient(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.1": "192.0.2.1/32", "::ffff:192.0.2.1": "192.0.2.1/32", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64",
		"fe80::1%eth0": "fe80::/64", "::1": "::/64",
	} {
		if got := Client(netip.MustParseAddr(text)); got.String() != want {
			t.Errorf("%s is of the client %v, want %s", text, got, want)
		}
	}
}

// What is taken never exceeds a limit or a share, and all of it comes back.
func TestBudgetAddsUp(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	limits := Cost{Tests: 20, Descriptors: 1000, Threads: 64, Bytes: 1 << 20}
	b := NewBudget(Options{Limits: limits, Shared: true, Reserved: true})
	type held struct {
		client int
		cost   Cost
		back   func()
	}
	var all []held
	for range 20_000 {
		if len(all) > 0 && r.IntN(2) == 0 {
			i := r.IntN(len(all))
			freed := b.Freed()
			all[i].back()
			all[i].back() // once more changes nothing
			select {
			case <-freed:
			default:
				t.Fatal("nobody is told that something was given back")
			}
			all = append(all[:i], all[i+1:]...)
			continue
		}
		h := held{client: r.IntN(4), cost: Cost{1, r.Int64N(400), r.Int64N(40), r.Int64N(1 << 19)}}
		back, err := b.Take(address(h.client), r.IntN(2) == 0, h.cost)
		if refusal, ok := errors.AsType[*Refusal](err); err != nil && (!ok || refusal.Asked != h.cost[refusal.Resource]) {
			t.Fatal(err)
		}
		if err == nil {
			h.back = back
			all = append(all, h)
		}
		var sum Cost
		of := map[int]Cost{}
		for _, one := range all {
			mine := of[one.client]
			for i := range sum {
				sum[i] += one.cost[i]
				mine[i] += one.cost[i]
			}
			of[one.client] = mine
		}
		if used, clients := b.Used(); used != sum || clients != len(of) {
			t.Fatalf("%v of %d clients are counted, %v of %d are held", used, clients, sum, len(of))
		}
		for i := range sum {
			if sum[i] > limits[i] {
				t.Fatalf("%d of %d %v are taken", sum[i], limits[i], Resource(i))
			}
			for client, mine := range of {
				if float64(mine[i]) > max(float64(limits[i])*share, 1) {
					t.Fatalf("client %d has %d of %d %v", client, mine[i], limits[i], Resource(i))
				}
			}
		}
	}
	for _, h := range all {
		h.back()
	}
	if used, clients := b.Used(); used != (Cost{}) || clients != 0 || len(b.clients) != 0 {
		t.Errorf("%v of %d clients are left", used, clients)
	}
}

func TestDoor(t *testing.T) {
	d := NewDoor(4)
	var ended []string
	guests := map[string]*Guest{}
	enter := func(client int, name string) {
		guests[name] = d.Enter(address(client), func() { ended = append(ended, name) })
	}
	expect := func(when string, names ...string) {
		t.Helper()
		if fmt.Sprint(ended) != fmt.Sprint(names) {
			t.Errorf("%s: %v had to go, want %v", when, ended, names)
		}
		ended = nil
	}
	enter(1, "a1")
	enter(2, "b1")
	enter(1, "a2")
	enter(2, "b2")
	expect("with room")
	enter(3, "c1")
	expect("full: the oldest of those that have most", "a1")
	enter(3, "c2")
	expect("again", "b1")
	guests["a2"].Leave()
	guests["a2"].Leave()
	enter(1, "a3")
	expect("one has left")
	guests["a1"].Leave() // it is gone already
	enter(4, "d1")
	expect("c has most", "c1")
	if waiting, pushed := d.Waiting(); waiting != 4 || pushed != 3 {
		t.Errorf("%d wait and %d were pushed out, want 4 and 3", waiting, pushed)
	}
	for _, g := range guests {
		g.Leave()
	}
	if waiting, _ := d.Waiting(); waiting != 0 || len(d.clients) != 0 {
		t.Errorf("%d guests of %d clients are left", waiting, len(d.clients))
	}
}

// Addresses that each take all they get leave some to one that has none.
func TestManyTakersLeaveSome(t *testing.T) {
	const limit = 64
	b := NewBudget(Options{Limits: Cost{Tests: limit}, Shared: true})
	r := rand.New(rand.NewPCG(3, 4))
	var held []func()
	for range 5000 {
		for i := range 8 {
			for {
				back, err := b.Take(address(i), false, Cost{Tests: 1})
				if err != nil {
					break
				}
				held = append(held, back)
			}
		}
		if back, err := b.Take(address(9), false, Cost{Tests: 1}); err != nil {
			t.Fatal(err)
		} else {
			back()
		}
		for range 1 + r.IntN(8) {
			i := r.IntN(len(held))
			held[i]()
			held = append(held[:i], held[i+1:]...)
		}
	}
}

// However many silent connections one client opens, one of another that is quick
// is never pushed out.
func TestDoorProtectsTheQuick(t *testing.T) {
	d := NewDoor(10)
	for range 1000 {
		for range 50 {
			d.Enter(address(1), func() {})
		}
		out := false
		g := d.Enter(address(2), func() { out = true })
		for range 50 {
			d.Enter(address(1), func() {})
		}
		if out {
			t.Fatal("the quick client was pushed out by the silent one")
		}
		g.Leave()
	}
}

func TestContain(t *testing.T) {
	plain := errors.New("plain")
	if err := Contain(func() error { return plain }); !errors.Is(err, plain) {
		t.Errorf("got %v", err)
	}
	err := Contain(func() error { panic("fault") })
	p, ok := errors.AsType[*Panic](err)
	if !ok || !strings.Contains(p.Error(), "fault") || !strings.Contains(string(p.Stack), "admission_test.go") {
		t.Errorf("got %v", err)
	}
}
