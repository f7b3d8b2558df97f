package rr

import (
	"io"
	"testing"

	"github.com/hopbench/hopbench/internal/probe/probetest"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/testutil"
)

// A client whose requests wait at the server reads why that ends the test, and then the end.
func TestRequestsUnreadHideNoReason(t *testing.T) {
	near, far := probetest.Conns(t)
	_, err := far.Write(make([]byte, 8<<10))
	testutil.OK(t, err)
	testutil.OK(t, far.CloseWrite())
	testutil.OK(t, protocol.WriteFrame(&near, protocol.TypeError, session.ErrorFrame(session.Refusal(session.Limit, "too much"))))
	discardRequests(&near)
	testutil.OK(t, near.Close())
	if err := protocol.Expect(&far, protocol.TypeReport, protocol.MaxControl, nil); session.ReasonOf(err) != session.Limit {
		t.Errorf("got %v", err)
	}
	if _, err := far.Read(make([]byte, 1)); err != io.EOF { //nolint:errorlint // the very value
		t.Errorf("then %v", err)
	}
}
