package metrics

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMetrics(t *testing.T) {
	stats := probe.Stats{
		Used:    admission.Cost{admission.Tests: 2, admission.Threads: 7},
		Limits:  admission.Cost{admission.Tests: 64, admission.Bytes: 1e9},
		Clients: 1, Waiting: 3, PushedOut: 4,
		Began:         map[measurement.Kind]uint64{measurement.TCP: 5},
		Refused:       map[string]uint64{"threads": 6},
		ReceivedBytes: 1e10, SentBytes: 8,
	}
	address := served(t, func(ctx context.Context, ln net.Listener) error {
		return Serve(ctx, ln, func() probe.Stats { return stats })
	})
	text, err := fetch(t, "http://"+address+"/metrics")
	testutil.OK(t, err)
	for _, want := range []string{
		`hopbench_clients 1`, `hopbench_waiting_connections 3`, `hopbench_pushed_out_connections_total 4`,
		`hopbench_used{resource="tests"} 2`, `hopbench_used{resource="threads"} 7`, `hopbench_limit{resource="bytes"} 1e+09`,
		`hopbench_tests_total{kind="tcp"} 5`, `hopbench_refusals_total{reason="threads"} 6`,
		`hopbench_payload_bytes_total{direction="received"} 1e+10`, `hopbench_payload_bytes_total{direction="sent"} 8`,
		"go_threads ",
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("%q is missing", want)
		}
	}
	if _, err := fetch(t, "http://"+address+"/"); err == nil || !strings.HasPrefix(err.Error(), "status 404") {
		t.Errorf("/: %v", err)
	}
}

// served serves metrics until the test ends.
func served(t *testing.T, serve func(context.Context, net.Listener) error) (address string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ln, err := Listen(ctx, "127.0.0.1:0")
	testutil.OK(t, err)
	done := make(chan error, 1)
	go func() { done <- serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

// client keeps no connections.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func fetch(t *testing.T, url string) (string, error) {
	t.Helper()
	response, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	testutil.OK(t, err)
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %d: %s", response.StatusCode, text)
	}
	return string(text), nil
}
