package ftp_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/testutil"
)

func ftpSpec(flows int, bytes int64) measurement.Spec {
	return measurement.Spec{Kind: measurement.FTP, Flows: flows, FileBytes: bytes}
}

// Where an end bounds the rate, whoever asked for the file is told so.
func TestFileAtABoundedRate(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{Limits: probe.Limits{MaxRateBitsPerSecond: 40e6}})
	for _, direction := range []measurement.Direction{measurement.Send, measurement.Receive} {
		spec := measurement.Spec{Kind: measurement.FTP, FileBytes: 1_000_000, Direction: direction}
		out, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: target}, nil)
		testutil.OK(t, err)
		if !slices.ContainsFunc(out.Facts, func(fact string) bool { return strings.Contains(fact, "allows 40.0 Mbit/s in one test") }) {
			t.Errorf("%s: %q", direction, out.Facts)
		}
	}
}

func TestFTP(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{Token: servertest.Token})
	const size = 30_000_001
	for name, spec := range map[string]measurement.Spec{
		"one stream":  ftpSpec(1, size),
		"16 segments": ftpSpec(16, size),
		"upload":      {Kind: measurement.FTP, FileBytes: size, Direction: measurement.Send},
		"marked":      {Kind: measurement.FTP, FileBytes: size, Flows: 2, DSCP: 10},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: target, Token: servertest.Token}, nil)
			testutil.OK(t, err)
			m := out.Metrics
			if m["file_bytes"] != size || m["transfer_seconds"] <= 0 {
				t.Errorf("metrics %v", m)
			}
			if got, want := m["goodput_bits_per_second"]*m["transfer_seconds"]/8, float64(size); got < want*0.999 || got > want*1.001 {
				t.Errorf("goodput and time make %v bytes of %v", got, want)
			}
			var received, binned float64
			for _, f := range out.Flows {
				received += float64(f.ReceivedBytes)
				if f.SentBytes < f.ReceivedBytes || f.Source == "" || f.Destination == "" {
					t.Errorf("flow %+v", f)
				}
			}
			for _, n := range out.Throughput.Bytes {
				binned += n
			}
			if len(out.Flows) != spec.Defaults().Flows || received != size || binned != size {
				t.Errorf("%d flows with %v bytes, %v in bins", len(out.Flows), received, binned)
			}
			if out.Destination.CPUs == 0 || out.Source.CPUs == 0 || out.Started.IsZero() {
				t.Errorf("ends %+v, %+v, started %v", out.Source, out.Destination, out.Started)
			}
			if out.Effective["file_crc32"] == "" || !strings.Contains(out.Effective["ftp_server"], "hopbench") {
				t.Errorf("effective %v", out.Effective)
			}
		})
	}
}

// The sender's TCP is known, whichever end sends.
func TestFTPKnowsTheSendersTCP(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{})
	for _, direction := range []measurement.Direction{measurement.Receive, measurement.Send} {
		out, err := probe.Run(servertest.Context(t), probe.Request{Spec: measurement.Spec{Kind: measurement.FTP, FileBytes: 20_000_000, Direction: direction}, Target: target}, nil)
		testutil.OK(t, err)
		f := out.Flows[0]
		if f.Final == nil {
			t.Skipf("%s: this system has no TCP_INFO", direction)
		}
		// The last sample of a socket may be older than its last bytes.
		if f.Final.SentBytes <= 0 || f.Final.CongestionWindow <= 0 {
			t.Errorf("%s: %+v, %v", direction, f.Final, out.Metrics)
		}
	}
}

func TestFTPIsRefused(t *testing.T) {
	t.Parallel() // it waits for most of its time
	limited := servertest.Serve(t, probe.ServerOptions{Token: servertest.Token, Limits: probe.Limits{MaxFlows: 2}})
	for name, c := range map[string]struct {
		req  probe.Request
		want probe.Reason
	}{
		"wrong token":      {probe.Request{Spec: ftpSpec(1, 1e6), Target: limited, Token: "another"}, probe.Unauthorized},
		"too many":         {probe.Request{Spec: ftpSpec(3, 1e6), Target: limited, Token: servertest.Token}, probe.Limit},
		"both ways":        {probe.Request{Spec: measurement.Spec{Kind: measurement.FTP, Direction: measurement.Both}, Target: limited, Token: servertest.Token}, probe.Failed},
		"upload in parts":  {probe.Request{Spec: measurement.Spec{Kind: measurement.FTP, Direction: measurement.Send, Flows: 2}, Target: limited, Token: servertest.Token}, probe.Failed},
		"too few bytes":    {probe.Request{Spec: ftpSpec(2, 1), Target: limited, Token: servertest.Token}, probe.Failed},
		"digest of ours":   {probe.Request{Spec: measurement.Spec{Kind: measurement.FTP, FileCRC32: "00000000"}, Target: limited, Token: servertest.Token}, probe.Failed},
		"bad digest":       {probe.Request{Spec: measurement.Spec{Kind: measurement.FTP, FilePath: "/x", FileCRC32: "0"}, Target: limited}, probe.Failed},
		"path of two":      {probe.Request{Spec: measurement.Spec{Kind: measurement.FTP, FilePath: "/x\r\nQUIT"}, Target: limited}, probe.Failed},
		"not an FTP port":  {probe.Request{Spec: measurement.Spec{Kind: measurement.FTP, FilePath: "/x"}, Target: limited}, probe.Vanished},
		"nobody listening": {probe.Request{Spec: measurement.Spec{Kind: measurement.FTP, FilePath: "/x"}, Target: netip.MustParseAddrPort("127.0.0.1:1")}, probe.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := probe.Run(servertest.Context(t), c.req, nil)
			if e, ok := errors.AsType[*probe.Error](err); !ok || e.Reason != c.want {
				t.Errorf("%v, want reason %s", err, c.want)
			}
		})
	}
}

// Ending the server in the middle of a transfer ends the test, and nothing of
// either remains, which serve and the package's leak check see.
func TestFTPServerVanishes(t *testing.T) {
	ctx, stop := context.WithCancel(servertest.Context(t))
	server, err := probe.NewServer(probe.ServerOptions{})
	testutil.OK(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.OK(t, err)
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, ln) }()
	_, err = probe.Run(servertest.Context(t), probe.Request{Spec: ftpSpec(4, 1e12), Target: ln.Addr().(*net.TCPAddr).AddrPort()}, func(p measurement.Progress) {
		if p.Throughput > 0 {
			stop()
		}
	})
	stop()
	if e, ok := errors.AsType[*probe.Error](err); !ok || e.Reason != probe.Vanished {
		t.Errorf("%v, want that the server vanished", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestFTPIsCancelled(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{})
	ctx, cancel := context.WithCancel(servertest.Context(t))
	_, err := probe.Run(ctx, probe.Request{Spec: ftpSpec(2, 1e12), Target: target}, func(p measurement.Progress) {
		if p.Throughput > 0 {
			cancel()
		}
	})
	cancel()
	if e, ok := errors.AsType[*probe.Error](err); !ok || e.Reason != probe.Cancelled {
		t.Errorf("%v, want that it was cancelled", err)
	}
}

// A server ends a transfer that takes longer than it allows, and says so.
func TestFTPTakesTooLong(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{Limits: probe.Limits{MaxDuration: 300 * time.Millisecond}})
	_, err := probe.Run(servertest.Context(t), probe.Request{Spec: ftpSpec(1, 1e12), Target: target}, nil)
	if e, ok := errors.AsType[*probe.Error](err); !ok || e.Reason != probe.TimedOut {
		t.Errorf("%v, want a timeout", err)
	}
}
