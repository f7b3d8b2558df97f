package apply

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"net"
	"slices"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

const (
	// outerSample is how long one look at the packets of a tunnel takes, at
	// most maxOuterPackets of them.
	outerSample     = 20 * time.Millisecond
	maxOuterPackets = 20_000
)

// OuterPorts looks for some 20 ms at what leaves by an interface of the node for a
// UDP port and returns the source ports that it saw, in ascending order.
func (n *Node) OuterPorts(device string, port int) (ports []uint16, err error) {
	err = n.Within(func() error {
		ports, err = outerPorts(device, port)
		return err
	})
	return ports, err
}

// outerPorts reads the headers of packets that leave by an interface of the
// calling thread's network namespace, each a clone of the packet that costs its
// sender a fraction of a microsecond.
func outerPorts(device string, port int) (ports []uint16, err error) {
	at, err := net.InterfaceByName(device)
	if err != nil {
		return nil, err
	}
	// No protocol yet: nothing is received before the filter is there.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open packet socket: %w", err)
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	if err := attachOuterFilter(fd, port); err != nil {
		return nil, fmt.Errorf("attach a filter: %w", err)
	}
	wait := unix.NsecToTimeval(int64(outerSample / 4))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		return nil, fmt.Errorf("set a deadline: %w", err)
	}
	// Only sockets for all protocols are shown what leaves (dev_queue_xmit_nit
	// in net/core/dev.c).
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: bits.ReverseBytes16(unix.ETH_P_ALL), Ifindex: at.Index}); err != nil {
		return nil, fmt.Errorf("bind to %s: %w", device, err)
	}
	seen := make(map[uint16]bool)
	buffer := make([]byte, outerHeaders)
	until := time.Now().Add(outerSample)
	for range maxOuterPackets {
		if !time.Now().Before(until) {
			break
		}
		n, _, err := unix.Recvfrom(fd, buffer, 0)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read packets of %s: %w", device, err)
		}
		if p, ok := sourcePort(buffer[:n]); ok && !seen[p] {
			seen[p] = true
			ports = append(ports, p)
		}
	}
	slices.Sort(ports)
	return ports, nil
}

// outerHeaders are the largest IPv4 header and the ports, in bytes.
const outerHeaders = 60 + 4

// sourcePort is that of the UDP packet that the bytes begin with.
func sourcePort(packet []byte) (uint16, bool) {
	if len(packet) < 20 || packet[0]>>4 != 4 || packet[9] != unix.IPPROTO_UDP {
		return 0, false
	}
	header := int(packet[0]&15) * 4
	if header < 20 || len(packet) < header+2 {
		return 0, false
	}
	return binary.BigEndian.Uint16(packet[header:]), true
}

// attachOuterFilter lets the first bytes of outgoing UDP packets to a port pass,
// but for fragments, which have no ports.
func attachOuterFilter(fd, port int) error {
	program, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtType},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.PACKET_OUTGOING, SkipTrue: 9},
		bpf.LoadExtension{Num: bpf.ExtProto},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.ETH_P_IP, SkipTrue: 7},
		bpf.LoadAbsolute{Off: 9, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.IPPROTO_UDP, SkipTrue: 5},
		bpf.LoadAbsolute{Off: 6, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: 0x1fff, SkipTrue: 3},
		bpf.LoadMemShift{Off: 0},
		bpf.LoadIndirect{Off: 2, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(port), SkipTrue: 1},
		bpf.RetConstant{Val: 0},
		bpf.RetConstant{Val: outerHeaders},
	})
	if err != nil {
		return err
	}
	filter := make([]unix.SockFilter, len(program))
	for i, p := range program {
		filter[i] = unix.SockFilter{Code: p.Op, Jt: p.Jt, Jf: p.Jf, K: p.K}
	}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
}
