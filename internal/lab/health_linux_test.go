package lab

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab/labtest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// greet answers every connection with its name and then with each line that it gets.
func greet(address, name string) error {
	ln, err := net.Listen("tcp4", address)
	if err != nil {
		return err
	}
	fmt.Println("ready")
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

// meet prints the names that so many connections get.
func meet(address, count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
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

// stay connects until the name answers, says so, and when its input ends asks once more.
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
		fmt.Println(lines.Text())
		return c.Close()
	}
}

// A back end whose listener ends gets no more new flows until there is one
// again; connections to the others are not touched.
func TestBackendsAreChecked(t *testing.T) {
	t.Parallel() // it waits for most of its time
	const port = 4321
	l, paths := startExperiment(t, labtest.ParallelHops())
	path := paths[1]
	front := netip.AddrPortFrom(path.Destination, port).String()
	greeter := func(i int) *session {
		b := path.Backends[i]
		return listening(t, l, b.Node, "greet", netip.AddrPortFrom(b.Address, port).String(), b.Node)
	}
	names := []string{path.Backends[0].Node, path.Backends[1].Node}
	// 64 connections all miss one of two back ends in 1 of 10¹⁹ runs.
	expect := func(when string, want ...string) {
		t.Helper()
		got := role(t, l, path.SourceNode, "meet", front, "64")
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
	staying := run(t, l, path.SourceNode, "stay", front, names[0])
	if line := staying.line(t); line != "met "+names[0] {
		t.Fatal(line)
	}

	began := time.Now()
	second.end()
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
	staying.in.Close()
	if line := staying.line(t); line != "still there" {
		t.Errorf("the connection that stayed: %s", line)
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
	path := paths[0]
	for _, b := range path.Backends {
		listening(t, l, b.Node, "greet", netip.AddrPortFrom(b.Address, port).String(), b.Node)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	testutil.OK(t, l.WatchBackends(ctx, path, port))
	for range 3 { // each takes longer than a second, in which a back end is tried again
		role(t, l, path.SourceNode, "meet", netip.AddrPortFrom(path.Destination, port).String(), "1")
	}
	if down := l.BackendsDown(path); len(down) > 0 {
		t.Errorf("down are %v", down)
	}
}
