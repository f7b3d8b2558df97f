package sockets

import (
	"runtime"
	"sync"
	"testing"
)

func TestHoldProcessor(t *testing.T) {
	own := runtime.GOMAXPROCS(0)
	client, server := conns(t, "127.0.0.1:0")
	var group sync.WaitGroup
	group.Go(func() {
		defer Lock()()
		defer server.HoldProcessor(false)()
		if got := runtime.GOMAXPROCS(0); got != own+1 {
			t.Errorf("the runtime has %d processors while a thread holds one, want %d", got, own+1)
		}
		buf := make([]byte, 100)
		for {
			if _, err := server.Read(buf); err != nil && err != ErrTick {
				return // the other end has closed
			}
		}
	})
	for range 50 {
		if _, err := client.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		// The collector stops the world, also the thread that waits in a raw call.
		runtime.GC()
	}
	if err := client.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	group.Wait()
	if got := runtime.GOMAXPROCS(0); got != own {
		t.Errorf("the runtime was left with %d processors, want %d", got, own)
	}
}

func TestAddProcessorIsBounded(t *testing.T) {
	own := runtime.GOMAXPROCS(0)
	n := 0
	for {
		if had, ok := addProcessor(); had != own {
			t.Fatalf("the runtime had %d processors, is said to have had %d", own, had)
		} else if !ok {
			break
		}
		if n++; n > MostAddedProcessors {
			t.Fatalf("more than %d processors were added", MostAddedProcessors)
		}
		if got := runtime.GOMAXPROCS(0); got < own+n {
			t.Fatalf("the runtime has %d processors with %d added to its %d", got, n, own)
		}
	}
	if n != MostAddedProcessors {
		t.Errorf("%d processors were added, want %d", n, MostAddedProcessors)
	}
	for range n {
		removeProcessor()
	}
	if got := runtime.GOMAXPROCS(0); got != own {
		t.Errorf("the runtime was left with %d processors, want %d", got, own)
	}
}
