package sockets

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hopbench/hopbench/internal/testutil"
	"github.com/hopbench/hopbench/internal/thread"
)

// Flows keep their processors until they carry little, all together, and take
// them back when they carry much.
func TestKeeper(t *testing.T) {
	const flows = 4
	for _, step := range []struct {
		name  string
		calls int
		every time.Duration
		moved int64
		away  bool
		keeps bool
	}{
		{"much", 10, keepInterval / 10, flows * muchBytes / 10, false, true},
		{"less than much", 10, keepInterval / 10, flows * muchBytes * 3 / 40, false, true},
		{"little, for a while", 10 * (patience - 1), keepInterval / 10, flows * littleBytes / 11, false, true},
		{"little", 10 * patience, keepInterval / 10, flows * littleBytes / 11, false, false},
		{"nothing, for a while", 1, (patience - 1) * keepInterval, 0, false, true},
		{"nothing", 1, patience * keepInterval, 0, false, false},
		{"much at once, after long", 1, 20 * keepInterval, flows * muchBytes, false, false},
		{"for too short a time to say", 5, keepInterval / 10, 0, false, true},
		{"less than much, taking back", 10, keepInterval / 10, flows * muchBytes * 3 / 40, true, false},
		{"much, taking back", 10, keepInterval / 10, flows * muchBytes / 10, true, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := NewKeeper(flows)
			k.away.Store(step.away)
			time.Sleep(time.Minute) // for START
			k.count(1)
			for range step.calls {
				time.Sleep(step.every)
				k.count(int(step.moved))
			}
			if got := k.keeps(); got != step.keeps {
				t.Errorf("%s: kept %v", step.name, got)
			}
		})
	}
	var nobody *Keeper
	nobody.count(1)
	if nobody.keeps() {
		t.Error("nobody keeps one")
	}
}

// The runtime can stop a thread that waits and keeps its processor, and what arrives
// afterwards is read.
func TestKeepsProcessorThroughCollections(t *testing.T) {
	near, far := conns(t, "127.0.0.1:0")
	remove, ok := thread.AddProcessors(1)
	if !ok {
		t.Fatal("no processor to be had")
	}
	defer remove()
	k := NewKeeper(1)
	k.since.Store(int64(time.Hour)) // and it stays so for all of the test
	far.KeepProcessor(k)
	came := make(chan error, 1)
	go func() {
		defer Lock()()
		var b [1]byte
		_, err := read(t, func() (int, error) { return far.Read(b[:]) })
		came <- err
	}()
	for range 5 {
		runtime.GC()
	}
	_, err := near.Write([]byte{1})
	testutil.OK(t, err)
	testutil.OK(t, <-came)
	if !k.keeps() || k.moved.Load() != 1 {
		t.Errorf("keeps %v, %d bytes", k.keeps(), k.moved.Load())
	}
}
