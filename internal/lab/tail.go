package lab

import (
	"io"
	"sync"
)

// tailBytes is how much of the lab's standard error is kept.
const tailBytes = 8 << 10

// tail keeps the last of what it reads.
type tail struct {
	mu   sync.Mutex
	kept []byte
	over chan struct{}
}

// collect reads r to its end and closes it.
func (t *tail) collect(r io.ReadCloser) {
	t.mu.Lock()
	over := t.channel()
	t.mu.Unlock()
	defer close(over)
	defer r.Close()
	buffer := make([]byte, 4096)
	for {
		n, err := r.Read(buffer)
		t.mu.Lock()
		t.kept = append(t.kept, buffer[:n]...)
		if extra := len(t.kept) - tailBytes; extra > 0 {
			t.kept = append(t.kept[:0], t.kept[extra:]...)
		}
		t.mu.Unlock()
		if err != nil {
			return // the last writer has ended
		}
	}
}

func (t *tail) channel() chan struct{} {
	if t.over == nil {
		t.over = make(chan struct{})
	}
	return t.over
}

// wait returns when collect has read everything.
func (t *tail) wait() {
	t.mu.Lock()
	over := t.channel()
	t.mu.Unlock()
	<-over
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept)
}
