package lab

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab/labtest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// backendRole is a program in a node: "greet ADDRESS NAME" answers every
// connection with its name and then with each line that it gets; "ask ADDRESS N"
// prints the names that N connections get; "stay ADDRESS NAME" connects until
// NAME answers, says so, and when its input ends asks once more.
func backendRole(args []string) int {
	var err error
	switch args[0] {
	case "greet":
		err = greet(args[1], args[2])
	case "ask":
		var n int
		if _, err = fmt.Sscan(args[2], &n); err == nil {
			err = ask(args[1], n)
		}
	case "stay":
		err = stay(args[1], args[2])
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func greet(address, name string) error {
	ln, err := net.Listen("tcp4", address)
	if err != nil {
		return err
	}
	fmt.Println("listens")
	for {
		c, err := ln.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			fmt.Fprintln(c, name)
			for lines := bufio.NewScanner(c); lines.Scan(); {
				fmt.Fprintln(c, lines.Text())
			}
		}()
	}
}

// connectTo connects and returns who answered.
func connectTo(address string) (net.Conn, *bufio.Scanner, error) {
	c, err := net.DialTimeout("tcp4", address, 5*time.Second)
	if err != nil {
		return nil, nil, err
	}
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return nil, nil, err
	}
	lines := bufio.NewScanner(c)
	if !lines.Scan() {
		return nil, nil, fmt.Errorf("nobody answers: %w", lines.Err())
	}
	return c, lines, nil
}

func ask(address string, n int) error {
	for range n {
		c, lines, err := connectTo(address)
		if err != nil {
			return err
		}
		fmt.Println(lines.Text())
		c.Close()
	}
	return nil
}

func stay(address, name string) error {
	for {
		c, lines, err := connectTo(address)
		if err != nil {
			return err
		}
		if lines.Text() != name {
			c.Close()
			continue
		}
		fmt.Println("met", name)
		bufio.NewScanner(os.Stdin).Scan()
		fmt.Fprintln(c, "still there")
		if !lines.Scan() || lines.Text() != "still there" {
			return fmt.Errorf("the connection to %s is lost: %w", name, lines.Err())
		}
		return c.Close()
	}
}

// started is a program that a test started in a node.
type started struct {
	output *bufio.Scanner
	input  *os.File
	stop   context.CancelFunc
	ended  chan error
}

// begin runs a program in a node and waits for its first line.
func begin(t *testing.T, l *Lab, node, first string, argv ...string) *started {
	t.Helper()
	in, input, err := os.Pipe()
	testutil.OK(t, err)
	output, out, err := os.Pipe()
	testutil.OK(t, err)
	ctx, stop := context.WithCancel(t.Context())
	p := &started{output: bufio.NewScanner(output), input: input, stop: stop, ended: make(chan error, 1)}
	go func() {
		code, err := l.Exec(ctx, node, Command{Argv: argv, Stdin: in, Stdout: out, Stderr: out})
		in.Close()
		out.Close()
		if err == nil && code != 0 {
			err = fmt.Errorf("status %d", code)
		}
		p.ended <- err
	}()
	t.Cleanup(func() {
		stop()
		input.Close()
		output.Close()
	})
	if !p.output.Scan() || p.output.Text() != first {
		t.Fatalf("%v in %s says %q, want %q", argv, node, p.output.Text(), first)
	}
	return p
}

// A back end whose listener ends gets no more new flows until there is one
// again; connections to the others are not touched.
func TestBackendsAreChecked(t *testing.T) {
	t.Parallel() // it waits for most of its time
	const port = 4321
	l, paths := startExperiment(t, labtest.ParallelHops())
	self, path := readableSelf(t), paths[1]
	front := netip.AddrPortFrom(path.Destination, port).String()
	greeter := func(i int) *started {
		b := path.Backends[i]
		return begin(t, l, b.Node, "listens", self, "greet", netip.AddrPortFrom(b.Address, port).String(), b.Node)
	}
	names := []string{path.Backends[0].Node, path.Backends[1].Node}
	// 64 connections all miss one of two back ends in 1 of 10¹⁹ runs.
	expect := func(when string, want ...string) {
		t.Helper()
		got := strings.Fields(must(t, l, path.SourceNode, self, "ask", front, "64"))
		slices.Sort(got)
		want = slices.Sorted(slices.Values(want))
		if len(got) != 64 || !slices.Equal(slices.Compact(slices.Clone(got)), want) {
			t.Errorf("%s, connections reach %q, want %q", when, got, want)
		}
	}
	awaitDown := func(want ...netip.Addr) {
		t.Helper()
		poll(t, func() bool { return slices.Equal(l.BackendsDown(path), want) },
			func() string { return fmt.Sprintf("down are %v, want %v", l.BackendsDown(path), want) })
	}
	greeter(0)
	second := greeter(1)
	expect("before the health check", names...)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	testutil.OK(t, l.WatchBackends(ctx, path, port))
	if err := l.WatchBackends(ctx, path, port); err == nil || !strings.Contains(err.Error(), "watched already") {
		t.Errorf("watched twice: %v", err)
	}
	if err := l.WatchBackends(ctx, paths[0], port); err == nil {
		t.Error("a path without a load balancer is watched")
	}
	awaitDown()
	expect("with all well", names...)
	staying := begin(t, l, path.SourceNode, "met "+names[0], self, "stay", front, names[0])

	began := time.Now()
	second.stop()
	<-second.ended
	awaitDown(path.Backends[1].Address)
	expect("without the second", names[0])

	greeter(1)
	awaitDown()
	if down := l.BackendsDownSince(path, began); !slices.Equal(down, []netip.Addr{path.Backends[1].Address}) {
		t.Errorf("meanwhile %v were down", down)
	}
	if down := l.BackendsDownSince(path, time.Now()); len(down) > 0 {
		t.Errorf("down are %v", down)
	}
	expect("with the second again", names...)
	staying.input.Close()
	if err := <-staying.ended; err != nil {
		t.Errorf("the connection that stayed: %v", err)
	}
	if err := l.Err(); err != nil {
		t.Error(err)
	}
}

// Back ends that are far away are well all the same.
func TestFarBackends(t *testing.T) {
	t.Parallel() // it waits for most of its time
	const port = 4321
	e := labtest.ParallelHops()
	e.Paths = e.Paths[1:2]
	e.Paths[0].Hops = append(e.Paths[0].Hops, experiment.Hop{Type: experiment.Link, Impairment: experiment.Impairment{Delay: 400 * time.Millisecond}})
	l, paths := startExperiment(t, e)
	self, path := readableSelf(t), paths[0]
	for _, b := range path.Backends {
		begin(t, l, b.Node, "listens", self, "greet", netip.AddrPortFrom(b.Address, port).String(), b.Node)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	testutil.OK(t, l.WatchBackends(ctx, path, port))
	for range 3 { // each takes longer than a second, in which a back end is tried again
		must(t, l, path.SourceNode, self, "ask", netip.AddrPortFrom(path.Destination, port).String(), "1")
	}
	if down := l.BackendsDown(path); len(down) > 0 {
		t.Errorf("down are %v", down)
	}
}
