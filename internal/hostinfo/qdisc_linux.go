package hostinfo

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// qdisc is a queueing discipline that hangs directly on an interface.
type qdisc struct {
	index int // of the interface
	kind  string
	drops uint64
}

// Of linux/pkt_sched.h and linux/gen_stats.h.
const (
	tcRoot          = 0xffffffff // TC_H_ROOT, the parent of an egress discipline
	tcIngress       = 0xfffffff1 // TC_H_INGRESS, the parent of an ingress discipline
	tcStatsQueue    = 3          // TCA_STATS_QUEUE: qlen, backlog, drops, requeues, overlimits
	tcStatsDrops    = 8          // offset of drops in it
	tcMessageLength = 20         // struct tcmsg: family, padding, index, handle, parent, info
	tcMessageParent = 12
)

const (
	qdiscTimeout = time.Second
	qdiscBuffer  = 64 << 10
	maxQdiscs    = 4096
)

// readQdiscs asks the kernel (rtnetlink(7), RTM_GETQDISC) for the disciplines
// at the root of each interface of the calling thread's network namespace.
// The drops of a root include those below it (qdisc_tree_reduce_backlog in
// net/sched/sch_api.c).
func readQdiscs() ([]qdisc, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("read queueing disciplines: %w", err)
	}
	defer func() { _ = unix.Close(fd) }() // nothing is written that could be lost
	wait := unix.NsecToTimeval(qdiscTimeout.Nanoseconds())
	request := make([]byte, unix.SizeofNlMsghdr+tcMessageLength)
	binary.NativeEndian.PutUint32(request, uint32(len(request)))
	binary.NativeEndian.PutUint16(request[4:], unix.RTM_GETQDISC)
	binary.NativeEndian.PutUint16(request[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	err = errors.Join(
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait),
		unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}),
	)
	if err != nil {
		return nil, fmt.Errorf("read queueing disciplines: %w", err)
	}
	var found []qdisc
	for b := make([]byte, qdiscBuffer); ; {
		n, _, err := unix.Recvfrom(fd, b, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read queueing disciplines: %w", err)
		}
		more, done, err := parseQdiscs(b[:n])
		if err != nil {
			return nil, fmt.Errorf("read queueing disciplines: %w", err)
		}
		found = append(found, more...)
		if done || len(found) > maxQdiscs {
			return found, nil
		}
	}
}

var errTruncated = errors.New("truncated netlink message")

// parseQdiscs reads the messages of one datagram of a dump, and says whether
// the dump ends there.
func parseQdiscs(b []byte) (found []qdisc, done bool, err error) {
	messages, err := syscall.ParseNetlinkMessage(b)
	if err != nil {
		return nil, false, errTruncated
	}
	for _, m := range messages {
		switch m.Header.Type {
		case unix.NLMSG_DONE:
			return found, true, nil
		case unix.NLMSG_ERROR:
			if len(m.Data) < 4 {
				return nil, false, errTruncated
			}
			return nil, false, unix.Errno(-int32(binary.NativeEndian.Uint32(m.Data)))
		case unix.RTM_NEWQDISC:
			q, direct, err := parseQdisc(m.Data)
			if err != nil {
				return nil, false, err
			}
			if direct {
				found = append(found, q)
			}
		}
	}
	return found, false, nil
}

// parseQdisc reads a struct tcmsg and its attributes, and says whether the
// discipline hangs directly on its interface.
func parseQdisc(b []byte) (q qdisc, direct bool, err error) {
	if len(b) < tcMessageLength {
		return qdisc{}, false, errTruncated
	}
	parent := binary.NativeEndian.Uint32(b[tcMessageParent:])
	q.index = int(int32(binary.NativeEndian.Uint32(b[4:])))
	err = eachAttribute(b[tcMessageLength:], func(kind uint16, value []byte) error {
		switch kind {
		case unix.TCA_KIND:
			q.kind = unix.ByteSliceToString(value)
		case unix.TCA_STATS2:
			return eachAttribute(value, func(kind uint16, value []byte) error {
				if kind == tcStatsQueue && len(value) >= tcStatsDrops+4 {
					q.drops = uint64(binary.NativeEndian.Uint32(value[tcStatsDrops:]))
				}
				return nil
			})
		}
		return nil
	})
	return q, parent == tcRoot || parent == tcIngress, err
}

// eachAttribute visits the attributes of netlink(7): length, type, value.
func eachAttribute(b []byte, visit func(kind uint16, value []byte) error) error {
	for len(b) >= 4 {
		length := int(binary.NativeEndian.Uint16(b))
		if length < 4 || length > len(b) {
			return errTruncated
		}
		if err := visit(binary.NativeEndian.Uint16(b[2:])&^unix.NLA_F_NESTED, b[4:length]); err != nil {
			return err
		}
		b = b[min(align4(length), len(b)):]
	}
	return nil
}

func align4(n int) int { return (n + 3) &^ 3 }

// interfaceName is the name of an interface, or its index if it is gone.
func interfaceName(index int) string {
	i, err := net.InterfaceByIndex(index)
	if err != nil {
		return "interface " + strconv.Itoa(index)
	}
	return i.Name
}
