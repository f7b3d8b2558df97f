package base

import (
	"bytes"
	"errors"
	"regexp"
	"testing"
)

func TestLinesOfALog(t *testing.T) {
	var out bytes.Buffer
	log := NewLog(&out)
	log.Info("nobody wants to know")
	log.With("client", "[::ffff:192.0.2.7]:4711").Warn("connection failed", "error", errors.New("no\x1b[2Jtoken"))
	log.Error("a result is not kept", "trial", 3, "bytes", 7, "error", errors.New("full"))
	log.Error("a fault", "stack", "a()\n\tb.go:7\x1b\n")
	want := regexp.MustCompile(`^\d\d:\d\d:\d\d  192\.0\.2\.7  connection failed: no \[2Jtoken
\d\d:\d\d:\d\d  a result is not kept, trial 3, bytes 7: full
\d\d:\d\d:\d\d  a fault
    a\(\)
     b\.go:7 
$`)
	if !want.Match(out.Bytes()) {
		t.Errorf("%q", out.String())
	}
}
