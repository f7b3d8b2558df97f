package lab

import (
	"io"
	"sync"
)

// tailBytes is how much of the lab's standard error is kept.
const tailBytes = 8 << 10

// tail keeps the last bytes of what it reads.
type tail struct {
	mu   sync.Mutex
	kept []byte
	done chan struct{} // closed when everything is read
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
	t.kept = append(t.kept, p...)
	if extra := len(t.kept) - tailBytes; extra > 0 {
		t.kept = append(t.kept[:0], t.kept[extra:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept)
}
