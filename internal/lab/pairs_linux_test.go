package lab

import (
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/lab/labtest"
)

// What a pair sends goes through its own tunnel, and no other pair's.
func TestPairsInTunnels(t *testing.T) {
	l, paths := startExperiment(t, labtest.PairsInTunnels())
	for k := range 2 {
		p := paths[1].Of(k)
		// With -w it goes on until two were answered; -W is two round trips once one was.
		text := must(t, l, p.SourceNode, "ping", "-n", "-c", "2", "-i", "0.05", "-w", "10", "-M", "do", "-s", "1422", p.Destination.String())
		if !strings.Contains(text, "2 received") || !strings.Contains(text, "ttl=64 ") {
			t.Errorf("a packet of the tunnel's MTU, pair %d:\n%s", k+1, text)
		}
		if text, _ := output(t, l, p.SourceNode, "ping", "-n", "-c", "1", "-W", "5", "-M", "do", "-s", "1423", p.Destination.String()); !strings.Contains(text, "mtu=1450") && !strings.Contains(text, "mtu = 1450") {
			t.Errorf("a larger one, pair %d:\n%s", k+1, text)
		}
		other := paths[1].Of(1 - k)
		if text, code := output(t, l, p.SourceNode, "ping", "-n", "-c", "1", "-W", "5", other.Destination.String()); code == 0 {
			t.Errorf("pair %d reaches the inside of pair %d:\n%s", k+1, 2-k, text)
		}
	}
}
