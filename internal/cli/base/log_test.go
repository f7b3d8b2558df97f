package base

import (
	"bytes"
	"errors"
	"regexp"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestLinesOfALog(t *testing.T) {
	var out bytes.Buffer
	log := NewLog(&out)
	log.Info("nobody wants to know")
	log.With("client", "[::ffff:192.0.2.7]:4711").Warn("connection failed", "error", errors.New("no\x1b[2Jtoken"))
	log.Error("a result is not kept", "trial", 3, "bytes", 7, "error", errors.Join(errors.New("full"), errors.New("broken")))
	log.Error("a fault", "stack", "a()\n\tb.go:7\x1b\n")
	want := regexp.MustCompile(`^\d\d:\d\d:\d\d  192\.0\.2\.7  connection failed: no \[2Jtoken
\d\d:\d\d:\d\d  a result is not kept, trial 3, bytes 7: full; broken
\d\d:\d\d:\d\d  a fault
    a\(\)
     b\.go:7 
$`)
	if !want.Match(out.Bytes()) {
		t.Errorf("%q", out.String())
	}
}

// What happens twenty times a second does not fill the disk.
func TestRepeatedLinesOfALog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := NewLog(&out)
		for range 500 {
			log.Warn("accept", "error", syscall.EMFILE)
			time.Sleep(repeatTime / 200)
		}
		log.Warn("another")
		log.Warn("accept", "error", syscall.EMFILE)
		clock := regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d  `)
		line, more := "accept: "+syscall.EMFILE.Error(), " (and 199 times since the last line)"
		if got, want := clock.ReplaceAllString(out.String(), ""), line+"\n"+line+more+"\n"+line+more+"\nanother\n"+line+"\n"; got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	})
}
