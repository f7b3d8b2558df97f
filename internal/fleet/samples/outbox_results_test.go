package samples

import (
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/testutil"
)

// Results are held next to samples, which give way to them; of too many the oldest goes.
func TestResultsAreHeld(t *testing.T) {
	o := NewOutbox(coder(t), 100_000)
	o.Begin("r")
	key := func(seat int) Key { return Key{Trial: "t", Seat: seat, Attempt: 1} }
	testutil.OK(t, o.Add("t", 1, 1, tenth, steady(16, 0, 1000, tenth)))
	for seat := 1; seat <= 3; seat++ {
		o.Finished(Result{Key: key(seat), Outcome: make([]byte, 45_000)})
	}
	if counts := o.Counts(); counts.Dropped == 0 || counts.HeldBytes > 100_000 {
		t.Errorf("%+v", counts)
	}
	held := o.Results()
	if len(held) != 2 || held[0].Key != key(2) || held[1].Key != key(3) {
		t.Fatalf("%d results are held", len(held))
	}
	o.Settled(key(1))
	o.Settled(key(2))
	o.Settled(key(2))
	if held = o.Results(); len(held) != 1 || held[0].Key != key(3) {
		t.Fatalf("%d results are held", len(held))
	}
	if o.Begin("r") || len(o.Results()) != 1 {
		t.Error("the same run let go of its results")
	}
	if !o.Begin("s") || len(o.Results()) != 0 || o.Counts().HeldBytes != 0 {
		t.Errorf("another run holds %+v", o.Counts())
	}
	o.Finished(Result{Key: key(1), Outcome: make([]byte, 200_000)})
	testutil.OK(t, o.Add("t", 1, 1, time.Second, steady(1, 0, 1, time.Second)))
	if len(o.Results()) != 1 || o.Counts().Dropped != 1 {
		t.Error("a result that is larger than all room has none, or samples have some")
	}
}
