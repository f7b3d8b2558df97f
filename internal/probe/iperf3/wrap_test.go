package iperf3

import (
	"errors"
	"io"
	"testing"

	"github.com/hopbench/hopbench/internal/iperf3"
	"github.com/hopbench/hopbench/internal/probe/session"
)

// What a server cannot do is not the fault of the path, whose connection it resets for that.
func TestReasonOfAnOldServer(t *testing.T) {
	err := wrap("iperf3 tcp test", errors.Join(iperf3.ErrOneWay, io.EOF))
	if r := session.ReasonOf(err); r != session.Unsupported || r.OfPath() {
		t.Error(err)
	}
}
