package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/lab"
)

// deviceRole makes this program the command of a switch: it asks the device, which is the
// lab, over a socket that has a name in the file system, as only those reach out of the
// network namespace of a node.
//
//	hosts device SOCKET SWITCH          prints the value in force
//	hosts device SOCKET SWITCH VALUE    brings it into force
const deviceRole = "device"

// deviceTime bounds one request: a few routes.
const deviceTime = 20 * time.Second

// askDevice is that command; its exit status.
func askDevice(args []string) int {
	answer, err := ask(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "device:", err)
		return 1
	}
	fmt.Println(answer)
	return 0
}

func ask(args []string) (string, error) {
	if len(args) < 2 || len(args) > 3 {
		return "", errors.New("write SOCKET SWITCH [VALUE]")
	}
	conn, err := net.DialTimeout("unix", args[0], deviceTime)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(deviceTime)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintln(conn, strings.Join(args[1:], " ")); err != nil {
		return "", err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return "", err
	}
	answer = strings.TrimSpace(answer)
	if why, failed := strings.CutPrefix(answer, deviceFailed); failed {
		return "", errors.New(why)
	}
	return answer, nil
}

// deviceFailed begins an answer that says why there is none.
const deviceFailed = "failed: "

// device switches the paths of a published lab, as `hopbench lab switch` does.
type device struct {
	lab      string // its name
	switches []deviceSwitch
}

// deviceSwitch is a switch of a testbed file.
type deviceSwitch struct {
	name   string
	proof  string // keys of the testbed file
	values []deviceValue
}

// deviceValue is a value of a switch, and the path of the lab that is in force then.
type deviceValue struct{ value, path string }

// serveDevice answers commands until the network is closed, and returns the socket's name.
func (n *network) serveDevice(switches []deviceSwitch) (socket string, err error) {
	d := device{lab: fmt.Sprintf("bench-hosts-%d", os.Getpid()), switches: switches}
	if err := n.lab.Publish(d.lab); err != nil {
		return "", err
	}
	socket = n.path("device.socket")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return "", err
	}
	n.closers = append(n.closers, listener.Close)
	n.background.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed, or nothing can be asked any more
			}
			_ = d.serve(n.ctx, conn) // who asked sees that there is no answer
			_ = conn.Close()
		}
	})
	return socket, nil
}

// serve answers one request.
func (d device) serve(ctx context.Context, conn net.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, deviceTime)
	defer cancel()
	if err := conn.SetDeadline(time.Now().Add(deviceTime)); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err
	}
	answer, err := d.act(ctx, strings.Fields(line))
	if err != nil {
		answer = deviceFailed + err.Error()
	}
	_, err = fmt.Fprintln(conn, answer)
	return err
}

// act does what a request asks for, and says which value is in force then.
func (d device) act(ctx context.Context, words []string) (string, error) {
	for _, s := range d.switches {
		if len(words) == 0 || s.name != words[0] {
			continue
		}
		for _, v := range s.values {
			if len(words) > 1 && v.value == words[1] {
				if err := lab.SwitchIn(ctx, d.lab, v.path); err != nil {
					return "", err
				}
			}
		}
		return d.inForce(ctx, s)
	}
	return "", fmt.Errorf("no switch %q", words)
}

func (d device) inForce(ctx context.Context, s deviceSwitch) (string, error) {
	paths, err := lab.SwitchedPathsOf(ctx, d.lab)
	if err != nil {
		return "", err
	}
	for _, p := range paths {
		for _, v := range s.values {
			if p.InForce && p.Name == v.path {
				return v.value, nil
			}
		}
	}
	return "", errors.New("no path is in force")
}
