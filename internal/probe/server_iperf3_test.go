package probe_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// stockReport is the part of `iperf3 -J` that tests look at.
type stockReport struct {
	Error        string `json:"error"`
	ServerOutput string `json:"server_output_text"`
	End          struct {
		Sent         stockSum `json:"sum_sent"`
		Received     stockSum `json:"sum_received"`
		SentBack     stockSum `json:"sum_sent_bidir_reverse"`
		ReceivedBack stockSum `json:"sum_received_bidir_reverse"`
		Sum          stockSum `json:"sum"` // UDP
		Streams      []struct {
			UDP struct {
				Bytes, Packets float64
				OutOfOrder     float64 `json:"out_of_order"`
			} `json:"udp"`
			Sender, Receiver stockSum
		} `json:"streams"`
		CPU struct {
			Remote float64 `json:"remote_total"`
		} `json:"cpu_utilization_percent"`
		SenderCongestion   string `json:"sender_tcp_congestion"`
		ReceiverCongestion string `json:"receiver_tcp_congestion"`
	} `json:"end"`
}

type stockSum struct {
	Bytes, Seconds, Packets float64
	Rate                    float64 `json:"bits_per_second"`
	Jitter                  float64 `json:"jitter_ms"`
	Lost                    float64 `json:"lost_packets"`
}

// stock runs Debian's client with -J and returns its report; an error is that
// of the client.
func stock(ctx context.Context, path string, target netip.AddrPort, args ...string) (stockReport, error) {
	args = append([]string{"-c", target.Addr().String(), "-p", strconv.Itoa(int(target.Port())), "-J"}, args...)
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var r stockReport
	if jsonErr := json.Unmarshal(out.Bytes(), &r); jsonErr != nil {
		return r, fmt.Errorf("iperf3 %v: %w: %.300s %.300s", args, errors.Join(err, jsonErr), out.String(), errs.String())
	}
	if err != nil || r.Error != "" {
		return r, fmt.Errorf("iperf3 %v: %w: %s", args, err, r.Error)
	}
	return r, nil
}

// TestStockClients has Debian's client use every option that concerns the
// server, all at once, and compares what the two ends say.
func TestStockClients(t *testing.T) {
	path := servertest.NeedIPerf3(t)
	target := servertest.Serve(t, probe.ServerOptions{})
	all := []string{
		"-n 1M", "-n 4M -P 4", "-k 20", "-n 1M -l 1000", "-t 1", "-t 1 -P 8", "-t 1 -R", "-t 1 -R -P 3 -b 20M", "-n 2M -R", "-k 9 -R -P 2",
		"-n 4M --bidir", "-n 4M --bidir -P 2", "-t 1 --bidir", "-t 1 --bidir -P 3 -b 20M", "-t 1 -O 1 -b 20M", "-t 1 -O 1 -R -b 20M", "-t 1 -b 20M", "-t 1 -b 20M -R", "-t 1 -b 20M/10 -R",
		"-n 1M -w 64K", "-t 1 -R -w 64K -b 20M", "-n 1M -M 1000", "-n 1M -C cubic", "-n 1M -R -C cubic", "-n 1M -S 32", "-n 1M -N", "-n 1M -Z", "-n 1M -R -Z",
		"-n 1M --get-server-output", "-t 1 -P 2 --get-server-output -R -b 20M", "-n 1M --pacing-timer 500", "-t 1 --fq-rate 50M -R",
		"-n 1M -P 128 -l 1K", "-n 1M --repeating-payload", "-n 1M -T title --extra-data x", "-n 1M -4",
		"-u -b 20M -n 1M", "-u -b 20M -t 1", "-u -b 20M -t 1 -R", "-u -b 5M -t 1 -P 4", "-u -b 5M -t 1 -P 4 -R", "-u -b 5M -t 1 --bidir",
		"-u -b 10M -t 1 -l 1400", "-u -b 10M -t 1 -l 200 -R", "-u -b 10M -t 1 --udp-counters-64bit", "-u -b 10M -t 1 --udp-counters-64bit -R",
		"-u -b 10M -t 1 -O 1 -l 1400", "-u -b 10M -t 1 -O 1 -R -l 1400", "-u -b 0 -k 100 -l 1400", "-u -b 10M -k 50 -S 32 -w 200K --dont-fragment",
		"-u -b 10M -n 1M --get-server-output",
	}
	ctx := servertest.Context(t)
	reports, errs := make([]stockReport, len(all)), make([]error, len(all))
	servertest.AtOnce(len(all), func(i int) { reports[i], errs[i] = stock(ctx, path, target, strings.Fields(all[i])...) })
	for i, args := range all {
		t.Run(args, func(t *testing.T) {
			if errs[i] == nil && reports[i].End.Sent.Bytes > reports[i].End.Received.Bytes && !strings.Contains(args, "-u") {
				// All at once, the last bytes of one may be too late to count.
				reports[i], errs[i] = stock(ctx, path, target, strings.Fields(args)...)
			}
			if errs[i] != nil {
				t.Fatal(errs[i])
			}
			checkStock(t, args, reports[i])
		})
	}
}

func checkStock(t *testing.T, args string, r stockReport) {
	has := func(option string) bool { return strings.Contains(" "+args+" ", " "+option+" ") }
	if has("--get-server-output") && !strings.Contains(r.ServerOutput, "Accepted connection") {
		t.Errorf("the server's output is %q", r.ServerOutput)
	}
	if has("-u") {
		checkStockUDP(t, has, r)
		return
	}
	if r.End.Sent.Bytes <= 0 || r.End.Received.Bytes <= 0 || r.End.Received.Seconds <= 0 {
		t.Errorf("sent %+v, received %+v", r.End.Sent, r.End.Received)
	}
	// Of a test of so many bytes without omission, all arrive here.
	if (has("-n") || has("-k")) && !has("-R") && r.End.Sent.Bytes != r.End.Received.Bytes {
		t.Errorf("sent %v bytes, the server received %v", r.End.Sent.Bytes, r.End.Received.Bytes)
	}
	if !has("-O") && r.End.Received.Bytes > r.End.Sent.Bytes {
		t.Errorf("received %v bytes of %v", r.End.Received.Bytes, r.End.Sent.Bytes)
	}
	// Of so many bytes the client may have sent all before the server begins.
	if has("--bidir") && !has("-n") && (r.End.SentBack.Bytes <= 0 || r.End.ReceivedBack.Bytes <= 0 || r.End.ReceivedBack.Bytes > r.End.SentBack.Bytes) {
		t.Errorf("sent back %+v, received %+v", r.End.SentBack, r.End.ReceivedBack)
	}
	for i, s := range r.End.Streams {
		if !has("-O") && s.Receiver.Bytes > s.Sender.Bytes {
			t.Errorf("stream %d received %v bytes of %v: streams are mixed up", i, s.Receiver.Bytes, s.Sender.Bytes)
		}
	}
	if has("-C") && (r.End.SenderCongestion != "cubic" || r.End.ReceiverCongestion != "cubic") {
		t.Errorf("algorithms %q, %q", r.End.SenderCongestion, r.End.ReceiverCongestion)
	}
}

func checkStockUDP(t *testing.T, has func(string) bool, r stockReport) {
	if has("--bidir") {
		if r.End.SentBack.Packets <= 0 || r.End.ReceivedBack.Packets <= 0 {
			t.Errorf("back: sent %+v, received %+v", r.End.SentBack, r.End.ReceivedBack)
		}
	}
	if r.End.Sum.Bytes <= 0 || r.End.Sum.Packets <= 0 || r.End.Sum.Rate <= 0 {
		t.Errorf("sum is %+v", r.End.Sum)
	}
	if r.End.Sum.Lost < 0 || r.End.Sum.Lost > r.End.Sum.Packets {
		t.Errorf("lost %v of %v packets", r.End.Sum.Lost, r.End.Sum.Packets)
	}
	for i, s := range r.End.Streams {
		if s.UDP.Packets <= 0 || s.UDP.OutOfOrder != 0 {
			t.Errorf("stream %d: %+v", i, s.UDP)
		}
	}
}

// TestStockClientsOfBothFamilies reaches a server that listens on all addresses.
func TestStockClientsOfBothFamilies(t *testing.T) {
	path := servertest.NeedIPerf3(t)
	ln, err := net.Listen("tcp", ":0")
	testutil.OK(t, err)
	port := servertest.ServeListener(t, probe.ServerOptions{Open: true}, ln).Port()
	ctx := servertest.Context(t)
	for _, host := range []string{"127.0.0.1", "::1"} {
		target := netip.AddrPortFrom(netip.MustParseAddr(host), port)
		if c, err := net.Dial("tcp", target.String()); err != nil {
			t.Logf("%s: %v", host, err)
			continue // a machine without IPv6
		} else if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		for _, args := range []string{"-n 1M -P 2", "-u -b 20M -n 200K -P 2", "-u -b 20M -n 200K -R -S 32"} {
			if _, err := stock(ctx, path, target, strings.Fields(args)...); err != nil {
				t.Errorf("%s: %v", host, err)
			}
		}
	}
}

// TestHundredStockClients has 100 clients at once, more than the server runs
// at a time: each gets a result.
func TestHundredStockClients(t *testing.T) {
	path := servertest.NeedIPerf3(t)
	target := servertest.Serve(t, probe.ServerOptions{MaxTests: 40})
	ctx := servertest.Context(t)
	var group errgroup.Group
	for i := range 100 {
		args := []string{"-n", "1M"}
		switch i % 5 {
		case 1:
			args = append(args, "-R")
		case 2:
			args = []string{"-u", "-b", "20M", "-n", "200K", "-l", "1400"}
		case 3:
			args = append(args, "-P", "3")
		case 4:
			args = []string{"-u", "-b", "20M", "-n", "200K", "-l", "1400", "-R"}
		}
		group.Go(func() error {
			r, err := stock(ctx, path, target, args...)
			if err == nil && r.End.Sum.Bytes+r.End.Received.Bytes <= 0 {
				err = fmt.Errorf("client %d %v has no result: %+v", i, args, r.End)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

// TestStockClientsRefused checks that a client that is refused prints why.
func TestStockClientsRefused(t *testing.T) {
	path := servertest.NeedIPerf3(t)
	for _, test := range []struct {
		name    string
		options probe.ServerOptions
		args    string
		says    string // "" is served
	}{
		{"token", probe.ServerOptions{Token: servertest.Token}, "-n 1M", "authorization failed"},
		{"token and open", probe.ServerOptions{Token: servertest.Token, IPerf3Open: true}, "-n 1M", ""},
		{"too long", probe.ServerOptions{Limits: probe.Limits{MaxDuration: 5 * time.Second}}, "-t 20", "test duration too long"},
		{"too many", probe.ServerOptions{Limits: probe.Limits{MaxFlows: 2}}, "-n 1M -P 3", "number of parallel streams too large"},
		{"too fast", probe.ServerOptions{Limits: probe.Limits{MaxRateBitsPerSecond: 1e6}}, "-t 1 -b 2M", "total required bandwidth"},
		{"faster than asked", probe.ServerOptions{Limits: probe.Limits{MaxRateBitsPerSecond: 1e6}}, "-t 10", "total required bandwidth"},
		{"slow enough", probe.ServerOptions{Limits: probe.Limits{MaxRateBitsPerSecond: 8e6}}, "-t 1 -R -l 4K", ""},
		{"many streams that it paces", probe.ServerOptions{Limits: probe.Limits{MaxRateBitsPerSecond: 12e6}}, "-t 4 -R -P 16", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			test.options.Log = slog.New(slog.NewTextHandler(&synced{w: &log}, nil))
			target := servertest.Serve(t, test.options)
			_, err := stock(servertest.Context(t), path, target, strings.Fields(test.args)...)
			switch {
			case test.says == "" && err != nil:
				t.Error(err)
			case test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)):
				t.Errorf("the client says %v, want %q", err, test.says)
			}
		})
	}
}

// synced is a writer for several goroutines.
type synced struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *synced) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

// A server that ends tells its clients, which then show what there is, and does not say that they
// left.
func TestStockClientsOfAServerThatEnds(t *testing.T) {
	path := servertest.NeedIPerf3(t)
	for _, args := range []string{"-t 50", "-t 50 -R -P 2", "-t 50 -u -R"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			ln := servertest.Listen(t)
			var ended probe.TestEvent
			s, err := probe.NewServer(probe.ServerOptions{OnTest: func(e probe.TestEvent) { ended = e }})
			testutil.OK(t, err)
			ctx, cancel := context.WithCancel(servertest.Context(t))
			defer cancel()
			_, port, err := net.SplitHostPort(ln.Addr().String())
			testutil.OK(t, err)
			cmd := exec.CommandContext(ctx, path, append(strings.Fields(args), "-c", "127.0.0.1", "-p", port, "-i", "0.2", "--forceflush")...)
			cmd.Cancel = func() error { return nil } // the server's end ends it
			out, err := cmd.StdoutPipe()
			testutil.OK(t, err)
			cmd.Stderr = cmd.Stdout
			var all []string
			var reading sync.WaitGroup
			testutil.OK(t, cmd.Start())
			reading.Go(func() {
				defer cancel()
				for lines := bufio.NewScanner(out); lines.Scan(); {
					if all = append(all, lines.Text()); strings.Contains(lines.Text(), " sec ") {
						cancel()
					}
				}
			})
			testutil.OK(t, s.Serve(ctx, ln))
			reading.Wait()
			_ = cmd.Wait() // it failed
			if text := strings.Join(all, "\n"); !strings.Contains(text, "receiver\n") || !strings.Contains(text, "the server has terminated") {
				t.Errorf("the client says\n%s", text)
			}
			if !ended.Ended || ended.Vanished || ended.Err == nil || !strings.Contains(ended.Err.Error(), "this server was ended") {
				t.Errorf("the server says %+v", ended)
			}
		})
	}
}
