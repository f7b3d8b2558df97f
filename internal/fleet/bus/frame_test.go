package bus

import (
	"bytes"
	"testing"
)

// What is read of a message is written as it was read, and nothing is read of what is none.
func FuzzMessage(f *testing.F) {
	f.Add(message{kindJoin, 1, 0, []byte(`{"link":1,"version":"v","labels":["a=b"]}`)}.bytes())
	f.Add(message{kindData, 1 << 63, 9, nil}.bytes())
	f.Add([]byte{0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := parseMessage(raw)
		if err != nil {
			return
		}
		if !bytes.Equal(m.bytes(), raw) {
			t.Errorf("%x is written as %x", raw, m.bytes())
		}
		if h, err := parseHello(m.data); err == nil && len(h.Labels) > maxLabels {
			t.Errorf("%d labels", len(h.Labels))
		}
	})
}

// What is accepted is read as it was written, and nothing else is.
func FuzzAccepted(f *testing.F) {
	f.Add(accepted{}.bytes())
	f.Add(accepted{true, 1 << 63}.bytes())
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, raw []byte) {
		a, err := parseAccepted(raw)
		if err == nil && !bytes.Equal(a.bytes(), raw) {
			t.Errorf("%x is written as %x", raw, a.bytes())
		}
	})
}
