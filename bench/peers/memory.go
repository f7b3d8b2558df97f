package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// peakCommand is the hidden subcommand that runs a program in a node and says
// at the end how much memory it and its children had at most.
const peakCommand = "peak-memory"

const peakLine = "peak-memory-bytes"

// runPeak runs argv, samples it, and prints the peak as the last line.
func runPeak(argv []string) error {
	if len(argv) == 0 {
		return errors.New("no program named")
	}
	// A signal goes to the whole process group: the program ends by it, and this
	// process stays to report.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	c := exec.Command(argv[0], argv[1:]...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Start(); err != nil {
		return fmt.Errorf("start %s: %w", argv[0], err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	peaks := map[int]float64{}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	asked := false
	for {
		sampleTree(c.Process.Pid, peaks)
		select {
		case <-tick.C:
		case <-signals:
			asked = true
		case err := <-ended:
			var sum float64
			for _, p := range peaks {
				sum += p
			}
			fmt.Printf("\n%s %.0f\n", peakLine, sum)
			if asked {
				return nil // it was told to end
			}
			return err
		}
	}
}

// sampleTree notes the resident high-water mark of a process and of those below
// it. The kernel keeps the mark, so that only growth in a process's last
// moments can be missed.
func sampleTree(pid int, peaks map[int]float64) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	if text, err := os.ReadFile(filepath.Join(dir, "status")); err == nil { // else it has ended
		peaks[pid] = max(peaks[pid], parseHighWater(string(text)))
	}
	tasks, err := filepath.Glob(filepath.Join(dir, "task", "*", "children"))
	if err != nil {
		return
	}
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if err != nil {
			continue
		}
		for _, word := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				sampleTree(child, peaks)
			}
		}
	}
}

var highWater = regexp.MustCompile(`(?m)^VmHWM:\s*([0-9]+) kB$`)

// parseHighWater reads VmHWM out of proc_pid_status(5), in bytes.
func parseHighWater(status string) float64 {
	return 1024 * number(firstOf(highWater, status))
}

var peakReport = regexp.MustCompile(`(?m)^` + peakLine + ` ([0-9]+)$`)

func parsePeak(text string) float64 { return number(firstOf(peakReport, text)) }

// memory runs a variant with both of its ends watched.
func (b *bench) memory(v *variant) func(context.Context) (values, error) {
	return func(ctx context.Context) (values, error) {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program: %w", err)
		}
		watched := *v
		watched.server = append([]string{self, peakCommand}, v.server...)
		watched.client = append([]string{self, peakCommand}, v.client...)
		client, server, _, err := b.against(ctx, &watched)
		if err != nil {
			return nil, err
		}
		near, far := parsePeak(client), parsePeak(server)
		if near == 0 || far == 0 {
			return nil, fmt.Errorf("%s: its memory was not seen: %s", v.label(), tail(server, 200))
		}
		return values{peakMemory: near + far}, nil
	}
}
