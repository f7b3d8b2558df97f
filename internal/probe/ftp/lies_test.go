package ftp

import (
	"net/netip"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/ftp"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/probetest"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
)

// outcomeOf is what a client makes of a server's report on a file of 900 bytes, which
// this end stored or received.
func outcomeOf(d measurement.Direction, payload []byte) (out measurement.Outcome, err error) {
	spec := measurement.Spec{Kind: measurement.FTP, Direction: d, FileBytes: 900}.Defaults()
	req := session.Request{Spec: spec, Target: netip.MustParseAddrPort("127.0.0.1:9")}
	test := &test{req: req, spec: spec, link: probetest.HonestLink(), client: &ftp.Client{}, started: time.Now()}
	if err := protocol.Decode(protocol.TypeReport, payload, protocol.TypeReport, &test.report); err != nil {
		return out, err
	}
	result := ftp.Result{Started: time.Now(), Took: time.Second, Bytes: 900, Segments: []ftp.Segment{{Bytes: 450}, {Offset: 450, Bytes: 450}}}
	if d == measurement.Send {
		result, err = test.stored(2 * time.Second)
	} else {
		err = checkTransfers(test.report, result.Segments, 900)
	}
	if err != nil {
		return out, err
	}
	return test.outcome(result, nil, 0), nil
}

// honest is a report that a client believes in such a test.
func honest(d measurement.Direction) any {
	info := probetest.HonestInfo()
	if d == measurement.Send {
		stored := measurement.Bins{Width: 0.01, Bytes: []float64{900}}
		return protocol.Report{Host: probetest.HonestHost(), Transfers: []protocol.Transfer{{Bytes: 900, Took: 1, Bins: &stored}}}
	}
	return protocol.Report{Host: probetest.HonestHost(), Transfers: []protocol.Transfer{{Bytes: 900, Final: &info}, {Offset: 450, Bytes: 450, Info: []measurement.TCPInfo{info}}}}
}

func TestEveryValueMayLie(t *testing.T) { probetest.EveryValueMayLie(t, honest, outcomeOf) }

func FuzzOutcome(f *testing.F) { probetest.FuzzOutcome(f, honest, outcomeOf) }
