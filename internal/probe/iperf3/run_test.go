package iperf3_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// stockServer runs Debian's server on a free port for the length of the test.
func stockServer(t *testing.T) netip.AddrPort {
	path := servertest.NeedIPerf3(t)
	// None that a UDP socket of another test may be given meanwhile.
	target := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(servertest.FreePorts(t, 1)))
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, path, "-s", "-p", strconv.Itoa(int(target.Port())), "--forceflush")
	out, err := cmd.StdoutPipe()
	testutil.OK(t, err)
	testutil.OK(t, cmd.Start())
	listening := make(chan struct{})
	read := make(chan struct{})
	go func() {
		defer close(read)
		var all bytes.Buffer
		b := make([]byte, 4096)
		for told := false; ; {
			n, err := out.Read(b)
			if all.Write(b[:n]); !told && strings.Contains(all.String(), "Server listening") {
				told = true
				close(listening)
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-read
		_ = cmd.Wait() // killed
	})
	select {
	case <-listening:
	case <-read:
		t.Fatal("iperf3 -s ended")
	case <-time.After(20 * time.Second):
		t.Fatal("iperf3 -s does not listen")
	}
	return target
}

// TestRunIPerf3 drives Debian's server, and this project's own, in all
// directions.
func TestRunIPerf3(t *testing.T) {
	for _, server := range []struct {
		name  string
		start func(t *testing.T) netip.AddrPort
	}{
		{"stock", stockServer},
		{"own", func(t *testing.T) netip.AddrPort { return servertest.Serve(t, probe.ServerOptions{}) }},
	} {
		specs := servertest.IPerf3Specs()
		targets := make([]netip.AddrPort, len(specs))
		for i := range specs {
			targets[i] = server.start(t)
		}
		ctx := servertest.Context(t)
		outs, errs := make([]measurement.Outcome, len(specs)), make([]error, len(specs))
		moved := make([][]int64, len(specs)) // at the end of the flows, as they are watched
		servertest.AtOnce(len(specs), func(i int) {
			watch := func(_ time.Time, flows []probe.ReadFlow) func() {
				return func() {
					for _, read := range flows {
						count, _ := read()
						moved[i] = append(moved[i], count.Bytes)
					}
				}
			}
			outs[i], errs[i] = probe.Run(ctx, probe.Request{Spec: specs[i], Target: targets[i], Watch: watch}, nil)
		})
		for i, spec := range specs {
			name := fmt.Sprintf("%s %s %s %d %s", server.name, spec.Kind, spec.Direction, spec.Flows, spec.CongestionControl)
			t.Run(name, func(t *testing.T) {
				if errs[i] != nil {
					t.Fatal(errs[i])
				}
				checkIPerf3(t, spec.Defaults(), outs[i])
				if spec.Kind == measurement.TCP && (len(moved[i]) != len(outs[i].Flows) || slices.Min(moved[i]) <= 0) {
					t.Errorf("%d bytes moved, of %d flows", moved[i], len(outs[i].Flows))
				}
			})
		}
	}
}

func checkIPerf3(t *testing.T, spec measurement.Spec, out measurement.Outcome) {
	for _, name := range []string{"goodput_bits_per_second"} {
		if !(out.Metrics[name] > 0) {
			t.Errorf("%s is %v", name, out.Metrics[name])
		}
	}
	for name := range out.Metrics {
		if _, ok := measurement.MetricNamed(name); !ok {
			t.Errorf("metric %s is not in the catalogue", name)
		}
	}
	flows := spec.Flows
	if spec.Direction == measurement.Both {
		flows *= 2
		if !(out.Metrics["forward_goodput_bits_per_second"] > 0 && out.Metrics["reverse_goodput_bits_per_second"] > 0) {
			t.Errorf("metrics are %v", out.Metrics)
		}
	}
	// What the warm-up missed may be made up for.
	if rate, most := out.Metrics["goodput_bits_per_second"], 4*spec.PacingBitsPerSecond*float64(flows); most > 0 && rate > most {
		t.Errorf("%.0f bit/s in all, paced at %.0f a flow", rate, spec.PacingBitsPerSecond)
	}
	if got := out.Effective["congestion_control"]; spec.CongestionControl != "" && got != spec.CongestionControl {
		t.Errorf("sent with %q, want %q", got, spec.CongestionControl)
	}
	if len(out.Flows) != flows {
		t.Fatalf("%d flows, want %d", len(out.Flows), flows)
	}
	for i, f := range out.Flows {
		// With a warm-up the two ends cut at different times.
		if f.ReceivedBytes <= 0 || f.SentBytes <= 0 || f.Source == f.Destination {
			t.Errorf("flow %d: %+v", i, f)
		}
		sends := spec.Direction == measurement.Send || spec.Direction == measurement.Both && !f.Reverse
		if got := f.Final != nil; spec.Kind == measurement.TCP && got != sends {
			t.Errorf("flow %d: TCP_INFO of this end's socket: %v, it sends: %v", i, got, sends)
		}
	}
	if got := out.Throughput != nil; got != (spec.Direction == measurement.Receive) {
		t.Errorf("bins: %v", got)
	}
	if spec.Kind == measurement.UDP {
		for _, name := range []string{"loss_fraction", "jitter_seconds", "received_packets_per_second", "sent_bits_per_second"} {
			if v, ok := out.Metrics[name]; !ok || v < 0 {
				t.Errorf("%s is %v, %v", name, v, ok)
			}
		}
	}
	if out.Destination.CPUBusy != 0 || !strings.Contains(strings.Join(out.Facts, "\n"), "of one CPU by its own account") {
		t.Errorf("far end %+v, facts %q", out.Destination, out.Facts)
	}
}

func TestRunIPerf3Refused(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{Token: servertest.Token})
	limited := servertest.Serve(t, probe.ServerOptions{Limits: probe.Limits{MaxDuration: time.Second}})
	spec := measurement.Spec{Kind: measurement.TCP, Tool: measurement.IPerf3, Duration: 2, MaxWarmup: 1}
	search := spec
	search.Kind, search.LossBound = measurement.UDP, 0.1
	for _, test := range []struct {
		target netip.AddrPort
		spec   measurement.Spec
		reason probe.Reason
	}{
		{target, spec, probe.Unauthorized},
		{limited, spec, probe.Limit},
		{limited, search, probe.Failed},
		{silentServer(t), spec, probe.Vanished},
		{unansweringServer(t), spec, probe.Failed},
	} {
		_, err := probe.Run(servertest.Context(t), probe.Request{Spec: test.spec, Target: test.target}, nil)
		var e *probe.Error
		if !errors.As(err, &e) || e.Reason != test.reason {
			t.Errorf("error %v, want %s", err, test.reason)
		}
	}
}

// unansweringServer closes the connection when it has the parameters, as iperf3 3.21 does where
// it demands a user name.
func unansweringServer(t *testing.T) netip.AddrPort {
	return testutil.Listen(t, func(c net.Conn) {
		_, _ = io.ReadFull(c, make([]byte, 37))
		_, _ = c.Write([]byte{9}) // PARAM_EXCHANGE
		var length [4]byte
		_, _ = io.ReadFull(c, length[:])
		_, _ = io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(length[:])))
	})
}

// silentServer closes every connection at once.
func silentServer(t *testing.T) netip.AddrPort {
	return testutil.Listen(t, func(c net.Conn) { _, _ = io.ReadFull(c, make([]byte, 37)) })
}
