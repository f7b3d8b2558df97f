package probe

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/datagram"
	"github.com/hopbench/hopbench/internal/probe/session"
)

// Proof is what two ends learn of each other when they prove the token.
type Proof struct {
	// Local is this end's address as this host sees it, Client as the other end does,
	// and Server the other end's own address: they differ where something translates.
	Local  netip.AddrPort `json:"local"`
	Client netip.AddrPort `json:"client"`
	Server netip.AddrPort `json:"server"`
	// ReceivedTTL is the time to live with which this end's packets arrived there,
	// ReturnedTTL that with which packets over UDP came back; 0 is not known.
	ReceivedTTL int `json:"received_ttl,omitempty"`
	ReturnedTTL int `json:"returned_ttl,omitempty"`
	// MSSBytes is that of the connection at the other end, 0 where it is not known.
	MSSBytes int `json:"mss_bytes,omitempty"`
}

// Prove connects to the server of a request over the path that a test with its source,
// device and DSCP would take. Both ends prove the token. Nothing else is sent but the
// few packets over UDP that tell the time to live. The error is always an *Error.
func Prove(ctx context.Context, req Request) (Proof, error) {
	op := fmt.Sprintf("prove the token to %s", req.Target)
	if !req.Target.IsValid() {
		return Proof{}, &Error{Op: op, Reason: Failed, Err: errors.New("no target address")}
	}
	// The shortest test there is; it is never started.
	req.Spec = measurement.Spec{
		Kind: measurement.RR, Duration: proofSeconds, MaxWarmup: proofSeconds,
		Device: req.Spec.Device, DSCP: req.Spec.DSCP,
	}.Defaults()
	l, err := session.ConnectSingle(ctx, req)
	if err != nil {
		return Proof{}, session.Wrap(op, err)
	}
	defer func() { _ = l.Conn.Abort() }() // nothing was begun
	ttl := datagram.StartTTLProbe(ctx, req, l.Ready)
	defer ttl.End()
	p := Proof{ReceivedTTL: l.Ready.ReceivedTTL, ReturnedTTL: ttl.Result(), MSSBytes: l.Ready.MSS}
	for _, address := range []struct {
		to   *netip.AddrPort
		text string
	}{{&p.Local, l.Local}, {&p.Client, l.Ready.Client}, {&p.Server, l.Ready.Server}} {
		if *address.to, err = netip.ParseAddrPort(address.text); err != nil {
			return p, session.Wrap(op, err)
		}
	}
	return p, nil
}

// proofSeconds is the length of the test that a proof asks for.
const proofSeconds = 0.01

// Proves says that the near end of a test sends nothing before the other end has proved
// the token, and then only to the address at which it did: all kinds for which a server
// of this project is needed. iperf3's protocol and stock FTP servers prove nothing, and
// ping and trace ask nobody.
func Proves(spec measurement.Spec) bool {
	return kinds[spec.Kind].Planned != nil && spec.Tool != measurement.IPerf3 && spec.FilePath == ""
}
