package soak

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hopbench/hopbench/internal/probe"
)

// native is the own client, which nobody disturbs.
func (c *client) native(ctx context.Context, _ string) {
	spec := specs[c.r.IntN(len(specs))]
	err := c.measure(ctx, c.from, spec)
	c.note(ctx, fmt.Sprintf("native %s", spec.Kind), err)
	if ctx.Err() == nil && outcome(err) == string(probe.Protocol) {
		c.finding("the server and its own client did not understand each other: %v", err)
	}
}

func (c *client) iperf3Args(more ...string) []string {
	to := c.of(c.from)
	return append([]string{"-c", to.Addr().String(), "-p", strconv.Itoa(int(to.Port())), "-B", c.from.String()}, more...)
}

// stock is an iperf3 client, which may be killed at any time.
func (c *client) stock(ctx context.Context, name string) {
	if c.iperf3 == "" {
		return
	}
	variants := [][]string{{"-P", "2"}, {"-R"}, {"-u", "-b", "50M"}, {"-P", "4", "-R"}}
	run, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if c.r.IntN(3) == 0 {
		name += " killed"
		time.AfterFunc(time.Duration(c.r.IntN(1500))*time.Millisecond, cancel)
	}
	said, err := c.finish(c.loads, exec.CommandContext(run, c.iperf3, c.iperf3Args(append(variants[c.r.IntN(len(variants))], "-t", "1")...)...))
	c.add(name, ended(ctx, run, said, err))
}

// finish runs a command and returns what it said.
func (m *mix) finish(by starter, command *exec.Cmd) (said string, err error) {
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	command.WaitDelay = 5 * time.Second // for children that hold the pipe
	if err := by.start(command); err != nil {
		return "", err
	}
	err = command.Wait()
	return out.String(), err
}

// ended is what became of a command: run is its context, ctx the soak's.
func ended(ctx, run context.Context, said string, err error) string {
	switch {
	case ctx.Err() != nil:
		return "cut short"
	case run.Err() == context.DeadlineExceeded: //nolint:errorlint // a context's very value
		return "hung"
	case run.Err() != nil:
		return "killed"
	case err == nil:
		return served
	}
	for _, reason := range []probe.Reason{probe.Limit, probe.Vanished, probe.TimedOut, probe.Refused, probe.Protocol, probe.Unsupported} {
		if strings.Contains(said, ": "+string(reason)+": ") {
			return string(reason)
		}
	}
	return failed
}

// beginnings are what garbage hides behind: nothing, the native preface, a
// frame after it, and an iperf3 cookie.
var beginnings = []string{"", "\xf0hopbnc\x01", "\xf0hopbnc\x01\x01\x00\x00\x00\x00\x00\x00\x10", "4vu74r65ppha3gibjwvkt3z42qjljbf5pqjz\x00"}

func (c *client) garbage(ctx context.Context, name string) {
	c.briefly(ctx, name, "tcp", func(to *conn) {
		if to.within(ctx, 2*time.Second) != nil {
			return
		}
		text := append([]byte(beginnings[c.r.IntN(len(beginnings))]), randomBytes(c.r, c.r.IntN(64<<10))...)
		_, _ = to.Write(text)            // the server may have hung up
		_, _ = to.Read(make([]byte, 64)) // it may answer, too
	})
}

func (c *client) datagrams(ctx context.Context, name string) {
	c.briefly(ctx, name, "udp", func(to *conn) {
		for range 100 {
			_, _ = to.Write(randomBytes(c.r, 1+c.r.IntN(1400))) // may be refused by ICMP
		}
	})
}

// hold keeps a connection open and silent, before or after a beginning.
func (c *client) hold(ctx context.Context, name string) {
	c.briefly(ctx, name, "tcp", func(to *conn) {
		_, _ = to.Write([]byte(beginnings[c.r.IntN(len(beginnings))]))
		pause(ctx, time.Duration(c.r.IntN(7000))*time.Millisecond)
	})
}

// briefly does something with a connection, whatever becomes of it.
func (c *client) briefly(ctx context.Context, name, network string, do func(*conn)) {
	to, err := c.dial(ctx, network)
	if err != nil {
		c.note(ctx, name, err)
		return
	}
	defer to.Close()
	do(to)
	c.add(name, "done")
}

// test is hopbench test as a command.
func (c *client) test(ctx context.Context, more ...string) *exec.Cmd {
	return exec.CommandContext(ctx, c.program, append([]string{"test", c.of(c.from).String(), "--bind", c.from.String(), "--quiet"}, more...)...)
}

// disturbed starts hopbench test as a process.
func (c *client) disturbed(ctx context.Context, name string) *exec.Cmd {
	kinds := [][]string{{"tcp", "--flows", "4"}, {"tcp", "--reverse"}, {"rr"}, {"rr", "--protocol", "udp"}}
	one := c.test(ctx, append([]string{"--duration", "3s", "--only"}, kinds[c.r.IntN(len(kinds))]...)...)
	if err := c.loads.start(one); err != nil {
		c.add(name, "not started")
		return nil
	}
	return one
}

// kill ends a client without a word.
func (c *client) kill(ctx context.Context, name string) {
	one := c.disturbed(ctx, name)
	if one == nil {
		return
	}
	pause(ctx, time.Duration(c.r.IntN(2500))*time.Millisecond)
	c.end(one, name, "done")
}

// suspend stops a client in the middle of its test; some go on after a while.
func (c *client) suspend(ctx context.Context, name string) {
	one := c.disturbed(ctx, name)
	if one == nil {
		return
	}
	pause(ctx, time.Duration(200+c.r.IntN(1500))*time.Millisecond)
	if err := one.Process.Signal(syscall.SIGSTOP); err != nil {
		c.end(one, name, "too late")
		return
	}
	pause(ctx, time.Duration(1000+c.r.IntN(9000))*time.Millisecond)
	if c.r.IntN(2) == 0 {
		_ = one.Process.Signal(syscall.SIGCONT) // it exists until it is waited for
		pause(ctx, 2*time.Second)
		c.end(one, name, "continued")
		return
	}
	c.end(one, name, "killed")
}

func (c *client) end(one *exec.Cmd, name, how string) {
	_ = one.Process.Kill() // it may have ended
	_ = one.Wait()         // by the signal
	c.add(name, how)
}
