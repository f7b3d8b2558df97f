package lab

import (
	"fmt"
	"strings"
	"testing"
)

// Users put what their kernel has into the nodes of a lab by the kernel's own
// tools. What doctor says of netem is what tc finds.
func TestNetemInNode(t *testing.T) {
	needProgram(t, "tc", "ping")
	l := startLab(t, chain(1, nil))
	found := ""
	for f := range Check(t.Context()) {
		if f.Name == "netem" && !f.OK {
			found = f.Detail
		}
	}
	text, code := output(t, l, "source", "tc", "qdisc", "add", "dev", "right", "root", "netem", "delay", "30ms", "limit", "1000")
	if (found == "") != (code == 0) {
		t.Fatalf("doctor says of netem %q, tc ends with status %d:\n%s", found, code, text)
	}
	if code != 0 {
		if !strings.Contains(found, "this kernel lacks it") {
			t.Errorf("doctor says of netem %q where tc says:\n%s", found, text)
		}
		return
	}
	text = must(t, l, "source", "ping", "-n", "-c", "3", "-i", "0.05", "-W", "5", "10.0.1.2")
	var least float64
	_, after, _ := strings.Cut(text, "mdev = ")
	if _, err := fmt.Sscanf(after, "%f/", &least); err != nil || least < 30 {
		t.Errorf("netem delays by 30 ms, but ping says (%v):\n%s", err, text)
	}
}

// A queue to user space that nobody listens to drops packets, and lets them pass
// if it is told to (nft(8), "queue statement").
func TestQueueInNode(t *testing.T) {
	needProgram(t, "nft", "ping")
	l := startLab(t, chain(1, nil))
	if text, code := output(t, l, "router-1", "nft", "add table ip own; add chain ip own way { type filter hook forward priority 0; }; add rule ip own way queue num 7"); code != 0 {
		// nft passes on what the kernel answers to an expression it does not know.
		if !strings.Contains(text, "No such file or directory") {
			t.Errorf("nft ends with status %d:\n%s", code, text)
		}
		return
	}
	if text, code := output(t, l, "source", "ping", "-n", "-c", "1", "-W", "1", "10.0.1.2"); code == 0 {
		t.Errorf("a packet came back from a queue that nobody reads:\n%s", text)
	}
	must(t, l, "router-1", "nft", "flush chain ip own way; add rule ip own way queue num 7 bypass")
	must(t, l, "source", "ping", "-n", "-c", "1", "-W", "5", "10.0.1.2")
}
