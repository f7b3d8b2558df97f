package soak

import (
	"context"
	"os/exec"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/probe"
)

// largestTests are what our own clients may ask for at most, as flags.
var largestTests = []string{
	"--only tcp -P 64 --bidir -t 2s", "--only tcp -P 64 -R -t 2s", "--only udp -P 64 -t 1s", "--only udp -P 64 -R -t 1s",
	"--only rr --in-flight 4096 -t 1s", "--only rr --in-flight 256 --request 64K --response 64K -t 1s",
	"--only crr -P 64 -t 1s", "--only crr -P 16 --response 1M -t 1s", "--only ftp -P 16 --file 200MB", "--only load -P 64 -t 1s",
}

// largest is a well-meant client that asks for much. It may be refused for the
// server's limits; it must be told so, and must not hang.
func (c *client) largest(ctx context.Context, _ string) {
	run, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	flags := largestTests[c.r.IntN(len(largestTests))]
	name := "largest " + strings.Fields(flags)[1]
	command := c.test(run, strings.Fields(flags)...)
	if c.iperf3 != "" && c.r.IntN(6) == 0 {
		name, flags = "largest iperf3", "-P 128 --bidir -t 2"
		command = exec.CommandContext(run, c.iperf3, c.iperf3Args(strings.Fields(flags)...)...)
	}
	said, err := c.finish(c.loads, command)
	became := ended(ctx, run, said, err)
	c.add(name, became)
	switch became {
	case "hung", string(probe.Vanished), string(probe.Protocol):
		c.finding("%s (%s): %s: %.500q", name, flags, became, said)
	}
	pause(ctx, 100*time.Millisecond)
}
