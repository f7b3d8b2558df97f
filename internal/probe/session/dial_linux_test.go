package session

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
)

// firstRefuses is a socket that is not what an option is for, and then one that is.
type firstRefuses struct{ asked int }

var errNoSocket = errors.New("the socket is gone")

func (f *firstRefuses) Control(func(uintptr)) error {
	if f.asked++; f.asked == 1 {
		return errNoSocket
	}
	return nil
}
func (*firstRefuses) Read(func(uintptr) bool) error  { return nil }
func (*firstRefuses) Write(func(uintptr) bool) error { return nil }

// What a socket of Multipath TCP refuses is known although one of plain TCP, which the
// dialer takes next, does not refuse it.
func TestRefusedByTheFirstSocket(t *testing.T) {
	req := Request{Target: netip.MustParseAddrPort("127.0.0.1:9"), Spec: measurement.Spec{Kind: measurement.TCP, MPTCP: true, CongestionControl: "reno"}}
	var refused error
	d, socket := dialer(req, 0, &refused), &firstRefuses{}
	var raw syscall.RawConn = socket
	if err := d.Control("tcp4", req.Target.String(), raw); !errors.Is(err, errNoSocket) {
		t.Errorf("the first socket: %v", err)
	}
	if err := d.Control("tcp4", req.Target.String(), raw); err != nil {
		t.Errorf("the second socket: %v", err)
	}
	if !errors.Is(refused, errNoSocket) {
		t.Errorf("what was refused is %v", refused)
	}
}
