package lab

import (
	"io"
	"sync"
)

// How much of the lab's standard error is kept: of its beginning, where Go says why it ends
// a program before it lists what each goroutine did, and of its end.
const (
	headBytes = 1 << 10
	tailBytes = 8 << 10
)

// tail keeps the first and the last bytes of what it reads.
type tail struct {
	mu         sync.Mutex
	head, kept []byte
	left       bool          // something between them was left out
	done       chan struct{} // closed when everything is read
}

// tailOf reads r to its end, in the background, and closes it.
func tailOf(r io.ReadCloser) *tail {
	t := &tail{done: make(chan struct{})}
	go func() {
		defer close(t.done)
		defer r.Close()
		_, _ = io.Copy(t, r) // the end of the last writer is the end
	}()
	return t
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(len(p), headBytes-len(t.head))
	t.head = append(t.head, p[:n]...)
	t.kept = append(t.kept, p[n:]...)
	if extra := len(t.kept) - tailBytes; extra > 0 {
		t.kept, t.left = append(t.kept[:0], t.kept[extra:]...), true
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left {
		return string(t.head) + "\n…\n" + string(t.kept)
	}
	return string(t.head) + string(t.kept)
}
