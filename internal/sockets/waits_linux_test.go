package sockets

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestNapAt(t *testing.T) {
	for rate, want := range map[float64]time.Duration{
		0:                0,
		1e9:              0, // 393 µs: woken too rarely for naps to save anything
		napBytes * 10000: longestNap,
		napBytes * 20000: longestNap / 2,
		1e12:             shortestNap,
	} {
		if got := napAt(rate); got != want {
			t.Errorf("at %g bytes per second naps are of %v, want %v", rate, got, want)
		}
	}
}

// A receiver goes on with the last way that was not slower, and tries again now and
// then.
func TestWaitsKeepsWhatIsFaster(t *testing.T) {
	const fast = 10e9
	for name, c := range map[string]struct {
		limit  int32
		alone  bool // it cannot share a processor
		rates  [ways]float64
		tries  int
		chosen way
	}{
		"faster with naps":          {1000, true, [ways]float64{fast, 1.2 * fast, 0}, 1, napping},
		"as fast with naps":         {1000, true, [ways]float64{fast, fast, 0}, 1, napping},
		"slower with naps":          {1000, true, [ways]float64{fast, fast / 2, 0}, 1, blocking},
		"too slow for anything":     {1000, false, [ways]float64{1e9, fast, fast}, 0, blocking},
		"no processor to be idle":   {0, true, [ways]float64{fast, 2 * fast, 0}, 0, blocking},
		"faster on one processor":   {1000, false, [ways]float64{fast, 1.2 * fast, 1.3 * fast}, 2, sharing},
		"hardly slower on one":      {1000, false, [ways]float64{fast, 1.2 * fast, 1.1 * fast}, 2, sharing},
		"slower on one":             {1000, false, [ways]float64{fast, 1.2 * fast, fast}, 2, napping},
		"slower than with wake-ups": {1000, false, [ways]float64{1.2 * fast, fast, fast}, 2, blocking},
		"busy, one processor":       {0, false, [ways]float64{fast, 0, fast}, 1, sharing},
	} {
		w := waits{wanted: true, limit: c.limit}
		if !c.alone {
			w.pin = &pin{at: -1}
		}
		for cycle, length := range []int{firstStretches, 2 * firstStretches, 4 * firstStretches, 8 * firstStretches, stretches, stretches} {
			if c.tries == 0 {
				length = 1 // it looks again after each stretch
			}
			var spent [ways]int
			for range length {
				spent[w.way]++
				w.choose(c.rates[w.way])
			}
			want := [ways]int{blocking: 1}
			for _, tried := range w.trying[:w.tries] {
				want[tried] = 2
			}
			want[c.chosen] += length - 1 - 2*c.tries
			if spent != want || c.tries > 0 && w.kept != c.chosen {
				t.Errorf("%s: %d stretches each way in cycle %d, want %d", name, spent, cycle, want)
			}
		}
	}
}

// The thread of a fast sender keeps to one processor, leaves it now and then, and is
// as free as before in the end; that of a slow one stays free.
func TestStayKeepsToAProcessor(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	allowed := func() int {
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(0, &set); err != nil {
			t.Fatal(err)
		}
		return set.Count()
	}
	before := allowed()
	if before < 2 {
		if newPin() != nil {
			t.Error("a thread that may run on one processor has a choice")
		}
		return
	}
	s := stay{pin: newPin()}
	s.since = time.Now().Add(-time.Hour)
	if s.sent(stretchBytes); allowed() != before {
		t.Error("a slow sender lost the choice of processors")
	}
	for range 2 {
		// A stretch of no time; a busy host may make it a long one.
		for n := 0; allowed() != 1; n++ {
			if s.sent(stretchBytes); n == 1000 {
				t.Fatalf("a fast sender may run on %d processors", allowed())
			}
		}
		for n := 0; allowed() == 1; n++ { // the scheduler chooses again
			if s.sent(stretchBytes); n == stretches {
				t.Fatal("the sender keeps to one processor for good")
			}
		}
	}
	s.pin.to(currentProcessor())
	s.pin.release()
	if allowed() != before {
		t.Errorf("in the end it may run on %d processors", allowed())
	}
}

// Nothing is lost, changed or kept back by naps, however the bytes come, and what
// ends a wait still does.
func TestNapsChangeNothing(t *testing.T) {
	client, server := conns(t, "127.0.0.1:0")
	random := rand.New(rand.NewPCG(1, 2))
	payload := make([]byte, 1<<20)
	for i := range payload {
		payload[i] = byte(random.Uint32())
	}
	sent := make(chan error, 1)
	pause := make(chan struct{})
	go func() {
		for rest := payload; len(rest) > 0; {
			n, err := client.Write(rest[:min(len(rest), 1+random.IntN(5000))])
			if err != nil {
				sent <- err
				return
			}
			rest = rest[n:]
			if random.IntN(20) == 0 {
				time.Sleep(time.Duration(random.IntN(300)) * time.Microsecond)
			}
		}
		<-pause
		sent <- client.CloseWrite()
	}()

	defer Lock()()
	defer server.HoldProcessor(true)()
	server.waits.way, server.waits.length = napping, longestNap/2
	var got bytes.Buffer
	buf := make([]byte, 4000)
	for got.Len() < len(payload) {
		n, err := server.Read(buf)
		if err != nil && !errors.Is(err, ErrTick) {
			t.Fatal(err)
		}
		got.Write(buf[:n])
	}
	if !bytes.Equal(got.Bytes(), payload) {
		t.Error("other bytes arrived than were sent")
	}
	if n, err := server.Read(buf); !errors.Is(err, ErrTick) {
		t.Errorf("a read with nothing to come returned %d bytes and %v, want a tick", n, err)
	}
	close(pause)
	for {
		_, err := server.Read(buf)
		if errors.Is(err, ErrTick) {
			continue
		}
		if err != io.EOF {
			t.Errorf("after the other end closed, a read returned %v, want %v", err, io.EOF)
		}
		break
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// The thread of whoever locks itself behind goes later in line and does not
// outlive the goroutine, so that nothing else runs on it.
func TestLockBehindEndsItsThread(t *testing.T) {
	niceOf := func(tid int) int {
		kernel, err := unix.Getpriority(unix.PRIO_PROCESS, tid)
		if err != nil {
			t.Fatal(err)
		}
		return 20 - kernel
	}
	own := niceOf(0)
	if own+SendersNice > 19 {
		t.Fatalf("the test itself runs at nice %d", own)
	}
	threads := make(chan int)
	release := make(chan struct{})
	go func() {
		defer LockBehind()()
		threads <- unix.Gettid()
		<-release
	}()
	tid := <-threads
	if got := niceOf(tid); got != own+SendersNice {
		t.Errorf("the thread has nice %d, want %d", got, own+SendersNice)
	}
	close(release)
	if tid == os.Getpid() {
		return // the runtime parks the first thread for good instead
	}
	task := filepath.Join("/proc/self/task", strconv.Itoa(tid))
	for deadline := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		if _, err := os.Stat(task); errors.Is(err, os.ErrNotExist) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("thread %d still exists", tid)
		}
	}
	if got := transferring.Load(); got != 0 {
		t.Errorf("%d threads still count as transferring", got)
	}
}
