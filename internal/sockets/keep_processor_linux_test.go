package sockets

import (
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/testutil"
	"github.com/hopbench/hopbench/internal/thread"
)

// A flow keeps a processor while it carries much, and only where it was told that it may.
func TestKeeper(t *testing.T) {
	const piece = fastBytes / 5
	steps := []struct {
		name  string
		every time.Duration // a piece, for fastTime
		errno syscall.Errno
		want  bool
	}{
		{"at four times the rate", fastTime / 20, 0, true},
		{"at half of it", fastTime / 2, 0, false},
		{"at twice the rate", fastTime / 10, 0, true},
		{"one call that waited long", 20 * fastTime, 0, false},
		{"calls that moved nothing", fastTime / 20, unix.EAGAIN, false},
	}
	for _, may := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			k := keeper{may: may, since: time.Now()}
			for _, step := range steps {
				for passed := time.Duration(0); passed < fastTime; passed += step.every {
					time.Sleep(step.every)
					k.count(piece, step.errno)
				}
				if want := step.want && may; k.now != want {
					t.Errorf("may %v, %s: kept %v, want %v", may, step.name, k.now, want)
				}
			}
		})
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
	far.keeps = keeper{may: true, now: true, since: time.Now().Add(time.Hour)} // for all of the test
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
}
