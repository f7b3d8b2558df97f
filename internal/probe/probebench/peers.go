package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/lab"
)

var errNotInstalled = errors.New("not installed")

// output runs a program in a node and returns what it prints.
func (b *bench) output(ctx context.Context, node string, argv ...string) (string, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer read.Close()
	type result struct {
		text []byte
		err  error
	}
	all := make(chan result, 1)
	go func() {
		text, err := io.ReadAll(io.LimitReader(read, 16<<20))
		all <- result{text, err}
	}()
	code, err := b.lab.Exec(ctx, node, lab.Command{Argv: argv, Stdout: write, Stderr: os.Stderr})
	err = errors.Join(err, write.Close())
	r := <-all
	if err = errors.Join(err, r.err); err != nil {
		return "", err
	}
	if code != 0 {
		return "", fmt.Errorf("%s ended with status %d: %s", argv[0], code, strings.TrimSpace(string(r.text)))
	}
	return string(r.text), nil
}

// against runs a peer's server while client runs, and tries client again for
// as long as the server needs to listen.
func (b *bench) against(ctx context.Context, server []string, client func() (float64, error)) (float64, error) {
	if _, err := exec.LookPath(server[0]); err != nil {
		return 0, fmt.Errorf("%s: %w", server[0], errNotInstalled)
	}
	inner, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		_, err := b.lab.Exec(inner, destination, lab.Command{Argv: server})
		ended <- err
	}()
	defer func() {
		stop()
		<-ended // it was killed, which is no error of the comparison
	}()
	var v float64
	var err error
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
		if v, err = client(); err == nil {
			return v, nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return 0, err
}

// iperf3 is the receiver's rate with iperf3's defaults.
func (b *bench) iperf3(flows int) func(context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		// Its -t and -O take whole seconds.
		seconds := strconv.Itoa(int(math.Ceil(b.duration.Seconds())))
		return b.against(ctx, []string{"iperf3", "-s", "-p", "5301"}, func() (float64, error) {
			text, err := b.output(ctx, source, "iperf3", "-c", target.Addr().String(), "-p", "5301", "-J",
				"-t", seconds, "-P", strconv.Itoa(flows), "-C", b.congestion)
			if err != nil {
				return 0, err
			}
			var report struct {
				End struct {
					Sum struct {
						Rate float64 `json:"bits_per_second"`
					} `json:"sum_received"`
				} `json:"end"`
			}
			if err := json.Unmarshal([]byte(text), &report); err != nil {
				return 0, fmt.Errorf("read iperf3's report: %w", err)
			}
			if report.End.Sum.Rate == 0 {
				return 0, errors.New("iperf3 reports no rate")
			}
			return report.End.Sum.Rate / 1e9, nil
		})
	}
}

// qperf prints half of a round trip, of one byte each way; this doubles it.
func (b *bench) qperf(test string) func(context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		return b.against(ctx, []string{"qperf", "-lp", "5302"}, func() (float64, error) {
			text, err := b.output(ctx, source, "qperf", target.Addr().String(), "-lp", "5302",
				"-t", strconv.Itoa(int(math.Ceil(b.duration.Seconds()))), "-m", "1", "-e", "5", test)
			if err != nil {
				return 0, err
			}
			for line := range strings.Lines(text) {
				name, rest, ok := strings.Cut(line, "=")
				if !ok || strings.TrimSpace(name) != "latency" {
					continue
				}
				fields := strings.Fields(rest)
				if len(fields) != 2 {
					break
				}
				v, err := strconv.ParseFloat(fields[0], 64)
				unit := map[string]float64{"ns": 1e-3, "us": 1, "ms": 1e3, "sec": 1e6}[fields[1]]
				if err == nil && unit != 0 {
					return 2 * v * unit, nil
				}
			}
			return 0, fmt.Errorf("no latency in qperf's report: %q", text)
		})
	}
}
