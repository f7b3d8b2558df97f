package probe

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
	_ = refuse(&near, session.Refusal(Limit, "too much")) // it is the refusal itself
	discardRequests(&near)
	testutil.OK(t, near.Close())
	if err := protocol.Expect(&far, protocol.TypeReport, protocol.MaxControl, nil); session.ReasonOf(err) != Limit {
		t.Errorf("got %v", err)
	}
	if _, err := far.Read(make([]byte, 1)); err != io.EOF { //nolint:errorlint // the very value
		t.Errorf("then %v", err)
	}
}
