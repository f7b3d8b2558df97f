package ftp

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hopbench/hopbench/internal/ftp"
	"github.com/hopbench/hopbench/internal/probe/session"
)

// A test in which no file is transferred is ended, and no other, however long a file takes.
func TestIdleTestIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f fileServer
		var g session.Guard
		defer g.Rest()
		f.note(ftp.Transfer{})
		defer f.endIdle(&g)()
		time.Sleep(time.Hour + time.Second) // and not when the timer fires
		f.note(ftp.Transfer{Ended: true})
		time.Sleep(session.StillTime)
		if why := g.Halted(); why != nil {
			t.Errorf("ended while a file was transferred, or just after: %v", why)
		}
		time.Sleep(2 * session.StillTime)
		if why := g.Halted(); session.ReasonOf(why) != session.TimedOut {
			t.Errorf("an idle test is ended with %v", why)
		}
	})
}
