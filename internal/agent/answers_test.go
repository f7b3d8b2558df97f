package agent

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hopbench/hopbench/internal/testutil"
)

// Whoever answers is there, whatever the answer; one whose connection ended is not, nor one
// that is silent.
func TestAnswers(t *testing.T) {
	near, far := net.Pipe()
	ctx, end := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, far, Options{}) }()
	c := NewClient(near)
	_, err := c.Listen(t.Context(), netip.MustParseAddrPort("127.0.0.1:0"), Serving{Token: "token"})
	testutil.OK(t, err)
	// What its host has is not lost, nor what it never had.
	stood, lost, err := c.Answers(t.Context(), time.Minute, netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("192.0.2.1"))
	if err != nil || stood != 0 || len(lost) > 0 {
		t.Errorf("one that is there: %v, stood still for %v, without %v", err, stood, lost)
	}
	end()
	<-served
	if _, _, err := c.Answers(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "ended") {
		t.Errorf("one that ended: %v", err)
	}
	testutil.OK(t, c.Close())
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		go func() { // reads, and says nothing
			buffer := make([]byte, 1024)
			for {
				if _, err := far.Read(buffer); err != nil {
					return
				}
			}
		}()
		c := NewClient(near)
		if _, _, err := c.Answers(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "5s") {
			t.Errorf("one that is silent: %v", err)
		}
		testutil.OK(t, c.Close())
		testutil.OK(t, far.Close())
	})
}
