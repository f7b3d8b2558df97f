// Command fleet measures how many machines one coordinator can have and, as `fleet lab`,
// whether a fleet carries in a lab what the lab's own agents do. Its machines are
// simulated: they are agents as others are, each with a connection over TLS of its own to a
// broker of its own process, and with a clock that runs otherwise; but they have no tests,
// so that thousands fit next to the coordinator on one machine. Of each number of machines
// it says
//
//   - joined: from the start of the first until all have joined and said what they are;
//   - paired: until all destinations listen, and all sources have proved the token (which is
//     simulated, and takes a message each way and path all the same);
//   - told: how far apart the moments are at which the sources were told to start, by a clock
//     that all processes of this machine share: what the estimates of their clocks are off;
//   - spread: how far apart they did start: the sources of a process one after the other, on
//     a thread that waits as a source's does;
//   - samples/s: of simulated flows, sampled and packed by the agents, that were on the disk,
//     from the start of a test of 10 s until the last was there;
//   - back: from the start of a coordinator in place of one that ended until all machines
//     have joined it;
//   - memory: of the process with coordinator and broker, all of it in RAM before the first
//     coordinator ended, and the larger of the peaks of both coordinators, each a process.
//
// What was not reached when time was over is a dash in the table.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/hopbench/hopbench/bench/internal/program"
	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/testbed/labtest"
)

// machinesRole, oneRole and backRole are this program as other processes, as is timedRole.
const (
	machinesRole = "machines"
	oneRole      = "one"
	backRole     = "back"
)

func main() {
	if code, handled := labtest.Role(os.Args); handled {
		os.Exit(code)
	}
	role := ""
	if len(os.Args) > 1 {
		role = os.Args[1]
	}
	do := map[string]func(context.Context, []string) error{
		machinesRole: machines, oneRole: one, backRole: back, labRole: inLab, timedRole: timed,
	}[role]
	if do == nil {
		program.Main("fleet", run)
		return
	}
	program.Main("fleet "+role, func(ctx context.Context, arguments []string) error { return do(ctx, arguments[1:]) })
}

// row is what was measured with a number of machines. What was not reached is 0.
type row struct {
	Machines int
	// The times are in seconds, memory in bytes.
	Joined, Paired, Back   float64
	Told, Spreads          []float64 // of each start
	Samples                float64   // on the disk each second
	StartedLate            int       // sources that had not heard in time, of all starts
	Memory, MemoryPeak     int64
	ProcessorSeconds, Took float64 // of coordinator and broker in the whole measurement
	Stopped                string  // why the measurement ended early, empty if it did not
}

// cells are those of the table.
func (r row) cells() string {
	cells := []string{
		strconv.Itoa(r.Machines), shown("%.2f s", r.Joined), shown("%.2f s", r.Paired),
		shown("%.2f ms", 1e3*statistics.Median(r.Told)), shown("%.2f ms", 1e3*largest(r.Told)),
		shown("%.2f ms", 1e3*statistics.Median(r.Spreads)), shown("%.2f ms", 1e3*largest(r.Spreads)),
		strconv.Itoa(r.StartedLate), shown("%.0f", r.Samples), shown("%.2f s", r.Back),
		shown("%.0f MiB", float64(r.Memory)/(1<<20)), shown("%.0f MiB", float64(r.MemoryPeak)/(1<<20)), shown("%.0f %%", 100*r.ProcessorSeconds/r.Took),
	}
	return strings.Join(cells, "\t") + "\t"
}

func shown(format string, value float64) string {
	if value == 0 {
		return "–"
	}
	return fmt.Sprintf(format, value)
}

func run(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("fleet", flag.ContinueOnError)
	numbers := flags.String("machines", "10,100,1000,10000", "numbers of machines, separated by commas")
	starts := flags.Int("starts", 5, "starts of each number of machines")
	limit := flags.Duration("limit", 330*time.Second, "how long all is measured at most")
	profiles := flags.String("profiles", "", "folder for profiles of coordinator and broker (go tool pprof): memory, goroutines, CPU")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	until := time.Now().Add(*limit)
	var lines []string
	for text := range strings.SplitSeq(*numbers, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 2 || n > mostMachines {
			return fmt.Errorf("-machines %q: write numbers from 2 to %d", text, mostMachines)
		}
		r, err := measure(ctx, n, *starts, time.Until(until), *profiles)
		if err != nil {
			return fmt.Errorf("%d machines: %w", n, err)
		}
		if r.Stopped != "" {
			fmt.Fprintf(os.Stderr, "%d machines: stopped: %s\n", n, r.Stopped)
		}
		lines = append(lines, r.cells())
		if ctx.Err() != nil {
			break
		}
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "machines\tjoined\tpaired\ttold, median\tlargest\tspread, median\tlargest\tlate\tsamples/s\tback\tmemory\tpeak\tCPU\t")
	for _, line := range lines {
		fmt.Fprintln(table, line)
	}
	return table.Flush()
}

// measure has another process measure, so that its memory is what this number takes.
func measure(ctx context.Context, n, starts int, limit time.Duration, profiles string) (r row, err error) {
	err = another(ctx, &r, oneRole, strconv.Itoa(n), strconv.Itoa(starts), limit.String(), profiles)
	return r, err
}

// another has another process of this program do something, and reads what that prints.
func another(ctx context.Context, printed any, arguments ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c := exec.CommandContext(ctx, self, arguments...)
	c.Stderr = os.Stderr
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = time.Minute
	out, err := c.Output()
	if err != nil {
		return err
	}
	return json.Unmarshal(out, printed)
}
