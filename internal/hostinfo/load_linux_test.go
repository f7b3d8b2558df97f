package hostinfo

import "testing"

func TestRunnable(t *testing.T) {
	if n, err := parseRunnable([]byte("0.20 0.18 0.12 3/80 11206\n")); n != 3 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for _, text := range []string{"", "1 2 3", "1 2 3 x/4 5"} {
		if n, err := parseRunnable([]byte(text)); err == nil {
			t.Errorf("%q: %d", text, n)
		}
	}
	if n, err := ReadRunnable(); n < 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}
