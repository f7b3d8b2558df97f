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

// A receiver goes on with whichever was not slower, awake or with naps, and
// tries again now and then.
func TestNapKeepsWhatIsFaster(t *testing.T) {
	const fast = 10e9
	for name, c := range map[string]struct {
		limit       int32
		awake, naps float64
		want        int // of how many stretches it napped
	}{
		"faster with naps":        {limit: 1000, awake: fast, naps: 1.2 * fast, want: stretches - 1},
		"as fast":                 {limit: 1000, awake: fast, naps: fast, want: stretches - 1},
		"slower with naps":        {limit: 1000, awake: fast, naps: fast / 2, want: 2},
		"too slow for naps":       {limit: 1000, awake: 1e9, naps: fast, want: 0},
		"no processor to be idle": {limit: 0, awake: fast, naps: 2 * fast, want: 0},
	} {
		p := nap{wanted: true, limit: c.limit}
		for cycle := range 3 {
			napped := 0
			for range stretches {
				rate := c.awake
				if p.length > 0 {
					napped++
					rate = c.naps
				}
				p.choose(rate)
			}
			if napped != c.want {
				t.Errorf("%s: napped in %d of %d stretches of cycle %d, want %d", name, napped, stretches, cycle, c.want)
			}
		}
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
	defer server.HoldProcessor()()
	server.nap.length = longestNap / 2
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
