package lab

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/hopbench/hopbench/internal/lab/labtest"
	"github.com/hopbench/hopbench/internal/lab/plan"
	"github.com/hopbench/hopbench/internal/lab/topology"
)

// iperf3Sum is what iperf3's --json says of the receiver.
type iperf3Sum struct {
	End struct {
		Sent struct {
			Retransmits int `json:"retransmits"`
		} `json:"sum_sent"`
		Received struct {
			Bytes   float64 `json:"bytes"`
			Seconds float64 `json:"seconds"`
		} `json:"sum_received"`
	} `json:"end"`
}

// All that an endpoint sends counts together, to whichever destination: two
// flows on two paths get no more than one would.
func TestEgressIsShared(t *testing.T) {
	needProgram(t, "ip", "ping", "tc", "bridge", "iperf3", "sh")
	e := labtest.SharedEgress()
	e.Endpoints[1].NICs = 2 // at either end, so that a direct link joins two bridges
	l, paths := startExperiment(t, e)
	for _, f := range l.Facts() {
		if strings.Contains(f, "metered by itself") {
			t.Skip(f)
		}
	}
	for _, p := range paths {
		text := must(t, l, "vm1", "ping", "-n", "-c", "3", "-i", "0.01", "-W", "2", "-I", p.Source.String(), p.Destination.String())
		if !strings.Contains(text, fmt.Sprintf("ttl=%d ", p.ReceivedTTL)) {
			t.Errorf("path %s: want a TTL of %d in\n%s", p.Name, p.ReceivedTTL, text)
		}
	}
	for i, link := range []int{0, 2, 4} { // the last of each path
		// The way of the packets is that of the path, in both directions.
		if c := counted(t, l, "vm2", topology.SharedPort(link)); c.ReceivedPackets < 3 || c.SentPackets < 3 || c.ReceivedPackets > 6 || c.SentPackets > 6 {
			t.Errorf("path %s: three pings and their ARP, but vm2 counted %+v", paths[i].Name, c)
		}
	}
	if text := must(t, l, "vm1", "tc", "qdisc", "show", "dev", topology.SharedDevice); !strings.Contains(text, "tbf") || !strings.Contains(text, "rate 50Mbit") {
		t.Errorf("the shared device has %s", text)
	}
	received := make([]iperf3Sum, len(paths))
	var wait sync.WaitGroup
	for i, p := range paths {
		// It ends with its first client, or with the lab.
		must(t, l, "vm2", "sh", "-c", fmt.Sprintf("iperf3 -s -1 -p %d >/dev/null 2>&1 &", 6000+i))
		poll(t, func() bool {
			return strings.Contains(must(t, l, "vm2", "sh", "-c", "cat /proc/net/tcp /proc/net/tcp6"), fmt.Sprintf(":%04X 0000", 6000+i))
		}, func() string { return "iperf3 does not listen" })
		wait.Go(func() {
			file, err := os.CreateTemp(t.TempDir(), "iperf3")
			if err != nil {
				t.Error(err)
				return
			}
			defer file.Close()
			code, err := l.Exec(t.Context(), "vm1", Command{
				Argv:   []string{"iperf3", "-J", "-t", "2", "-B", p.Source.String(), "-c", p.Destination.String(), "-p", fmt.Sprint(6000 + i)},
				Stdout: file,
			})
			text, readErr := os.ReadFile(file.Name())
			if err != nil || readErr != nil || code != 0 || json.Unmarshal(text, &received[i]) != nil {
				t.Errorf("path %s: %v, %v, status %d\n%s", p.Name, err, readErr, code, text)
			}
		})
	}
	wait.Wait()
	bucket := plan.EgressBucket(50e6, topology.DefaultMTU)
	bytes, seconds := 0.0, 0.0
	for i, r := range received {
		t.Logf("path %s: %.1f Mbit/s, %d retransmits", paths[i].Name, r.End.Received.Bytes*8/r.End.Received.Seconds/1e6, r.End.Sent.Retransmits)
		if r.End.Received.Bytes == 0 {
			t.Errorf("path %s got nothing", paths[i].Name)
		}
		bytes += r.End.Received.Bytes
		seconds = max(seconds, r.End.Received.Seconds)
	}
	// Clients that start one after the other share less than all of the time.
	if most := 1.05*float64(bucket.BytesPerSecond)*(seconds+1) + float64(bucket.BurstBytes); bytes > most {
		t.Errorf("%.0f bytes arrived in %.2f s on all paths, more than the %.0f that one egress lets pass", bytes, seconds, most)
	}
}
