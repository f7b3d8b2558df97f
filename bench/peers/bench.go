package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const source, router, destination = "source", "router", "destination"

// bench runs programs in the nodes of a bed, all placed in one way.
type bench struct {
	bed      bed
	placed   placement
	duration time.Duration
}

func newBench(ctx context.Context, o options, congestion string, placed placement) (*bench, error) {
	made, err := beds[o.bed](ctx, congestion)
	if err != nil {
		return nil, err
	}
	return &bench{bed: made, placed: placed, duration: o.duration}, nil
}

// wholeSeconds is the measured time of peers, most of which know no other.
func (b *bench) wholeSeconds() string {
	return strconv.Itoa(int((b.duration + time.Second - 1) / time.Second))
}

// busySeconds is the time that the CPUs of this host were not idle.
func busySeconds() (float64, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	return parseBusy(string(text))
}

// parseBusy adds up the columns of proc_stat(5) but idle and iowait, and guest,
// which user contains already. They are in hundredths of a second (USER_HZ).
func parseBusy(text string) (float64, error) {
	line, _, _ := strings.Cut(text, "\n")
	words := strings.Fields(line)
	if len(words) < 9 || words[0] != "cpu" {
		return 0, fmt.Errorf("/proc/stat begins with %q", line)
	}
	var sum float64
	for i, word := range words[1:9] {
		if i != 3 && i != 4 {
			sum += number(word) / 100
		}
	}
	return sum, nil
}

// output collects what a program prints, up to a bound.
type output struct {
	write *os.File
	done  chan struct{}
	text  bytes.Buffer
}

func newOutput() (*output, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	o := &output{write: write, done: make(chan struct{})}
	go func() {
		defer close(o.done)
		defer read.Close()
		_, _ = io.Copy(&o.text, io.LimitReader(read, 16<<20)) // a read error ends the text
	}()
	return o, nil
}

// end is called when the program has ended; descendants of it may hold the pipe
// for a moment more.
func (o *output) end() string {
	_ = o.write.Close() // an *os.File that is open closes
	<-o.done
	return o.text.String()
}

// exec runs a program in a node and returns what it prints, errors included.
func (b *bench) exec(ctx context.Context, node string, signals <-chan os.Signal, argv []string) (string, error) {
	out, err := newOutput()
	if err != nil {
		return "", err
	}
	code, err := b.bed.exec(ctx, node, b.placed.confine(node, argv), out.write, signals)
	text := out.end()
	if err == nil && code != 0 {
		err = fmt.Errorf("%s ended with status %d: %s", filepath.Base(argv[0]), code, tail(text, 300))
	}
	return text, err
}

// runTime bounds one run of a peer beyond its measured time.
const runTime = 15 * time.Second

// against runs a peer's server while its client runs, and returns what both
// printed and the CPU time that the host spent meanwhile.
func (b *bench) against(ctx context.Context, v *variant) (client, server string, busy float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.duration+runTime)
	defer cancel()
	signals := make(chan os.Signal, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// Its status says nothing: it is killed when it has served.
		server, _ = b.exec(ctx, destination, signals, v.server)
	}()
	client, busy, err = b.client(ctx, v, ended)
	signals <- syscall.SIGTERM
	select {
	case <-ended:
	case <-time.After(time.Second):
		cancel()
		<-ended
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", v.label(), err)
		if server != "" {
			err = fmt.Errorf("%w; its server says: %s", err, tail(server, 300))
		}
	}
	return client, server, busy, err
}

// client runs a peer's client once its server listens.
func (b *bench) client(ctx context.Context, v *variant, ended <-chan struct{}) (text string, busy float64, err error) {
	if err := b.awaitListener(ctx, v.port, v.udp, ended); err != nil {
		return "", 0, err
	}
	before, err := busySeconds()
	if err != nil {
		return "", 0, err
	}
	if text, err = b.exec(ctx, source, nil, v.client); err != nil {
		return "", 0, err
	}
	after, err := busySeconds()
	return text, after - before, err
}

// awaitListener returns when something in the destination is bound to port.
func (b *bench) awaitListener(ctx context.Context, port int, udp bool, ended <-chan struct{}) error {
	table := "tcp"
	if udp {
		table = "udp"
	}
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
		text, err := b.exec(ctx, destination, nil, []string{"cat", "/proc/net/" + table, "/proc/net/" + table + "6"})
		if err != nil {
			return err
		}
		if listens(text, port, udp) {
			return nil
		}
		select {
		case <-ended:
			return errors.New("the peer's server ended")
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return fmt.Errorf("the peer's server did not listen on port %d", port)
}

var socketLine = regexp.MustCompile(`(?m)^ *[0-9]+: [0-9A-F]+:([0-9A-F]{4}) [0-9A-F]+:[0-9A-F]{4} ([0-9A-F]{2}) `)

// listens reads proc_net_tcp and proc_net_udp: state 0A is LISTEN, 07 that of an
// unconnected UDP socket.
func listens(table string, port int, udp bool) bool {
	state := "0A"
	if udp {
		state = "07"
	}
	for _, m := range socketLine.FindAllStringSubmatch(table, -1) {
		if n, err := strconv.ParseUint(m[1], 16, 16); err == nil && int(n) == port && m[2] == state {
			return true
		}
	}
	return false
}

// datagramsRead is how many datagrams programs in the destination have read.
func (b *bench) datagramsRead(ctx context.Context) (float64, error) {
	text, err := b.exec(ctx, destination, nil, []string{"cat", "/proc/net/snmp"})
	if err != nil {
		return 0, err
	}
	return parseInDatagrams(text)
}

// parseInDatagrams reads Udp's InDatagrams (RFC 4113) out of /proc/net/snmp.
func parseInDatagrams(text string) (float64, error) {
	var names []string
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "Udp:" {
			continue
		}
		if names == nil {
			names = words
			continue
		}
		for i, name := range names {
			if name == "InDatagrams" && i < len(words) {
				return number(words[i]), nil
			}
		}
	}
	return 0, errors.New("/proc/net/snmp does not count UDP datagrams")
}

// peer runs a peer once.
func (b *bench) peer(v *variant) func(context.Context) (values, error) {
	return func(ctx context.Context) (values, error) {
		var read float64
		var err error
		if v.countBytes > 0 {
			if read, err = b.datagramsRead(ctx); err != nil {
				return nil, err
			}
		}
		text, _, busy, err := b.against(ctx, v)
		if err != nil {
			return nil, err
		}
		got, err := v.parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.label(), err)
		}
		if v.countBytes > 0 {
			now, err := b.datagramsRead(ctx)
			if err != nil {
				return nil, err
			}
			got.scaleTo((now - read) * v.countBytes)
		}
		if got[bytesMoved] > 0 {
			got[cpuPerByte] = busy / got[bytesMoved]
		}
		return got, nil
	}
}

// scaleTo replaces a sender's count by the bytes that were received.
func (v values) scaleTo(received float64) {
	if v[bytesMoved] <= 0 {
		return
	}
	share := received / v[bytesMoved]
	for _, name := range []string{goodput, packets, bytesMoved} {
		v[name] *= share
	}
}
