package samples

import (
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hopbench/hopbench/internal/testutil"
)

func totals(blocks []Block) (samples int64, sums Sums) {
	for _, b := range blocks {
		samples += int64(b.Samples)
		sums.Bytes += b.Bytes
		sums.Retransmits += b.Retransmits
	}
	return samples, sums
}

const tenth = 100 * time.Millisecond

func TestCoarserSamplesHaveTheSameSums(t *testing.T) {
	fine := steady(3, 7, 27, tenth)
	coarse := coarsen(fine, time.Second)
	if len(coarse) != 6 {
		t.Fatalf("%d samples of 3 flows in 2 s, want 6: %v", len(coarse), coarse)
	}
	of := func(all []Sample, flow int, from, to time.Duration) (out Sample) {
		n := time.Duration(0)
		for _, s := range all {
			if s.Flow == flow && s.At >= from && s.At < to {
				out.Bytes += s.Bytes
				out.Retransmits += s.Retransmits
				out.RTT += s.RTT
				out.CongestionWindow += s.CongestionWindow
				n++
			}
		}
		return Sample{At: from, Flow: flow, Bytes: out.Bytes, RTT: out.RTT / n, CongestionWindow: out.CongestionWindow / int64(n), Retransmits: out.Retransmits}
	}
	for _, got := range coarse {
		if want := of(fine, got.Flow, got.At, got.At+time.Second); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	// What is not known does not count as 0.
	mixed := coarsen([]Sample{{At: 0, Flow: 1}, {At: 1, Flow: 1, RTT: 4, CongestionWindow: 6}, {At: 2, Flow: 1, RTT: 8, CongestionWindow: 8}}, time.Second)
	if want := []Sample{{Flow: 1, RTT: 6, CongestionWindow: 7}}; !reflect.DeepEqual(mixed, want) {
		t.Errorf("%+v, want %+v", mixed, want)
	}
}

func TestCreditAndAcknowledgement(t *testing.T) {
	o := NewOutbox(coder(t), 1<<30)
	add := func(second int) {
		testutil.OK(t, o.Add("t", 1, 1, tenth, steady(4, second*10, second*10+10, tenth)))
	}
	for second := range 5 {
		add(second)
	}
	if b, ok := o.Next(); ok {
		t.Fatalf("block %d was sent without credit", b.Seq)
	}
	testutil.OK(t, o.Acknowledge(0, 1<<20))
	all := drain(o)
	if len(all) != 5 || all[4].Seq != 5 {
		t.Fatalf("%d blocks with credit for all", len(all))
	}
	// A lost connection: all that is not acknowledged comes again, the same bytes.
	testutil.OK(t, o.Acknowledge(2, 1<<20))
	o.Reconnected()
	if b, ok := o.Next(); ok {
		t.Fatalf("block %d was sent without the new connection's credit", b.Seq)
	}
	testutil.OK(t, o.Acknowledge(0, 1<<20)) // nothing new is on the disk
	if again := drain(o); !reflect.DeepEqual(again, all[2:]) {
		t.Errorf("%d blocks again, want the last 3 as they were", len(again))
	}
	// Credit for no more than one block at a time.
	add(5)
	testutil.OK(t, o.Acknowledge(5, len(all[0].Data)+50))
	add(6)
	if one := drain(o); len(one) != 1 || one[0].Seq != 6 {
		t.Errorf("%d blocks with credit for one", len(one))
	}
	// Credit for less than a block is enough for one, none is for none.
	testutil.OK(t, o.Acknowledge(6, 1))
	if one := drain(o); len(one) != 1 || one[0].Seq != 7 {
		t.Errorf("%d blocks with a little credit", len(one))
	}
	add(7)
	testutil.OK(t, o.Acknowledge(7, 0))
	if none := drain(o); len(none) != 0 {
		t.Errorf("%d blocks without credit", len(none))
	}
	for _, wrong := range []struct {
		seq    int64
		credit int
	}{{8, 1 << 20}, {-1, 1 << 20}, {7, -1}} {
		if err := o.Acknowledge(wrong.seq, wrong.credit); err == nil {
			t.Errorf("acknowledgement %+v was accepted", wrong)
		}
	}
	testutil.OK(t, o.Acknowledge(7, 1<<20))
	if last := drain(o); len(last) != 1 || last[0].Seq != 8 {
		t.Errorf("then %d blocks", len(last))
	}
	testutil.OK(t, o.Acknowledge(8, 1<<20))
	if c := o.Counts(); c.HeldBytes != 0 || c.InFlightBytes != 0 || c.LastSeq != 8 || c.Added != 8*40 || c.Dropped != 0 {
		t.Errorf("at the end %+v", c)
	}
}

// A coarser step is no longer than what is in it: that of a test's last seconds ends with it, and
// no moment has the bytes of two.
func TestCoarserStepsAreAsLongAsTheyWere(t *testing.T) {
	o := NewOutbox(coder(t), 5*overhead)
	for second := range 25 {
		var all []Sample
		for i := range 10 {
			all = append(all, Sample{At: time.Duration(second)*time.Second + time.Duration(i)*tenth, Flow: 1, Bytes: int64(tenth)}) // a byte a nanosecond
		}
		testutil.OK(t, o.Add("t", 1, 1, tenth, all))
	}
	testutil.OK(t, o.Add("t", 1, 1, tenth/2, []Sample{{At: 25 * time.Second, Flow: 1, Bytes: int64(tenth / 2)}}))
	if n := o.Counts().Coarsened; n[time.Second] == 0 || n[10*time.Second] == 0 {
		t.Errorf("coarser are %v", n)
	}
	testutil.OK(t, o.Acknowledge(0, 1<<20))
	for _, b := range drain(o) {
		all, err := o.coder.Samples(b)
		testutil.OK(t, err)
		for _, s := range all {
			if time.Duration(s.Bytes) != b.Step {
				t.Errorf("from %v on a step of %v has the bytes of %v", s.At, b.Step, time.Duration(s.Bytes))
			}
		}
	}
}

// An Outbox that cannot send makes its samples coarser, then drops the oldest. What was
// sent once stays as it is.
func TestCoarserThenDropped(t *testing.T) {
	c := coder(t)
	second := func(i int) []Sample { return steady(16, i*10, i*10+10, tenth) }
	var want Sums
	seconds := 0
	const limit = 40_000
	o := NewOutbox(c, limit)
	testutil.OK(t, o.Add("t", 1, 1, tenth, second(0)))
	testutil.OK(t, o.Acknowledge(0, 1<<20))
	first := drain(o)
	o.Reconnected()
	var seen []string
	for seconds = 1; seconds < 3000; seconds++ {
		testutil.OK(t, o.Add("t", 1, 1, tenth, second(seconds)))
		counts := o.Counts()
		if counts.HeldBytes > limit {
			t.Fatalf("after %d s %d bytes are held, the limit is %d", seconds, counts.HeldBytes, limit)
		}
		for name, n := range map[string]int64{"1s": counts.Coarsened[time.Second], "10s": counts.Coarsened[10*time.Second], "dropped": counts.Dropped} {
			if n > 0 && !slices.Contains(seen, name) {
				seen = append(seen, name)
			}
		}
	}
	if !slices.Equal(seen, []string{"1s", "10s", "dropped"}) {
		t.Errorf("in this order: %v", seen)
	}
	for i := range seconds {
		for _, s := range second(i) {
			want.Bytes += s.Bytes
			want.Retransmits += s.Retransmits
		}
	}
	testutil.OK(t, o.Acknowledge(0, 1<<20))
	got := drain(o)
	if !reflect.DeepEqual(got[0], first[0]) {
		t.Error("the block that was sent before was changed")
	}
	counts := o.Counts()
	coarsened := int64(0)
	for _, n := range counts.Coarsened {
		coarsened += n
	}
	if got[1].Coarsened != coarsened || got[0].Coarsened != 0 || coarsened == 0 {
		t.Errorf("block 2 tells of %d coarser blocks, they are %d", got[1].Coarsened, coarsened)
	}
	if got[1].Dropped != counts.Dropped || got[0].Dropped != 0 {
		t.Errorf("block 2 tells of %d dropped samples, they are %d", got[1].Dropped, counts.Dropped)
	}
	_, sums := totals(got)
	if sums.Bytes >= want.Bytes || counts.DroppedBlocks == 0 {
		t.Errorf("%d of %d bytes, %+v", sums.Bytes, want.Bytes, counts)
	}
	for i, b := range got {
		if b.Seq != int64(i+1) {
			t.Errorf("block %d has seq %d", i, b.Seq)
		}
		if i > 1 && b.From <= got[i-1].From {
			t.Errorf("block %d begins at %v, the one before at %v", i, b.From, got[i-1].From)
		}
		if _, err := c.Samples(b); err != nil {
			t.Errorf("block %d: %v", i, err)
		}
	}
}

// However an Outbox is used: nothing is lost or doubled but what it says it dropped, and
// blocks come in order.
func TestNothingIsLostOrDoubled(t *testing.T) {
	c := coder(t)
	rapid.Check(t, func(r *rapid.T) {
		limit := rapid.IntRange(2_000, 60_000).Draw(r, "limit")
		o := NewOutbox(c, limit)
		kept := map[int64]Block{} // on the disk of the other end, by seq
		var received []Block      // not yet on it
		added, stored := Sums{}, int64(0)
		second := 0
		take := func() {
			for _, b := range drain(o) {
				if before, ok := kept[b.Seq]; ok && !reflect.DeepEqual(before, b) {
					r.Fatalf("block %d came again and differs", b.Seq)
				}
				received = append(received, b)
			}
		}
		keep := func(credit int) {
			for _, b := range received {
				kept[b.Seq] = b
				stored = max(stored, b.Seq)
			}
			received = nil
			if err := o.Acknowledge(stored, credit); err != nil {
				r.Fatal(err)
			}
		}
		r.Repeat(map[string]func(*rapid.T){
			"add": func(r *rapid.T) {
				for range rapid.IntRange(1, 30).Draw(r, "seconds") {
					s := steady(3, second*10, second*10+10, tenth)
					second++
					if err := o.Add([]string{"a", "b"}[second/40%2], 1, 1, tenth, s); err != nil {
						r.Fatal(err)
					}
					for _, s := range s {
						added.Bytes += s.Bytes
						added.Retransmits += s.Retransmits
					}
				}
			},
			"send":    func(*rapid.T) { take() },
			"store":   func(r *rapid.T) { keep(rapid.IntRange(0, 20_000).Draw(r, "credit")) },
			"restart": func(*rapid.T) { received = nil; o.Reconnected() },
			"": func(r *rapid.T) {
				if counts := o.Counts(); counts.HeldBytes > limit+counts.InFlightBytes+20_000+overhead*100 {
					r.Fatalf("%+v, limit %d", counts, limit)
				}
			},
		})
		for o.Counts().HeldBytes > 0 {
			take()
			keep(1 << 20)
		}
		blocks := slices.Collect(maps.Values(kept))
		_, sums := totals(blocks)
		counts := o.Counts()
		if int64(len(blocks)) != counts.LastSeq {
			r.Fatalf("%d blocks were kept of %d", len(blocks), counts.LastSeq)
		}
		if counts.Dropped == 0 && sums != added {
			r.Fatalf("kept %+v of %+v, and nothing was dropped", sums, added)
		}
		if counts.Dropped > 0 && sums.Bytes >= added.Bytes {
			r.Fatalf("kept %+v of %+v although %d were dropped", sums, added, counts.Dropped)
		}
	})
}
