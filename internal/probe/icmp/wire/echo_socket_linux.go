package wire

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// ErrNotAllowed is in the error of OpenEcho when this process may open neither
// kind of socket. Callers add what to do instead.
var ErrNotAllowed = errors.New("allow it with `sysctl -w net.ipv4.ping_group_range=\"0 2147483647\"`")

// OpenEcho opens a connected ICMP echo socket: a raw one where that is
// allowed, otherwise a datagram one (net.ipv4.ping_group_range). ICMP errors
// come by its error queue. It returns the descriptor and the kind.
func OpenEcho(source, target netip.Addr) (fd int, kind string, err error) {
	v6 := target.Is6()
	family, protocol := unix.AF_INET, unix.IPPROTO_ICMP
	if v6 {
		family, protocol = unix.AF_INET6, unix.IPPROTO_ICMPV6
	}
	const flags = unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	kind = RawSocket
	fd, rawErr := unix.Socket(family, unix.SOCK_RAW|flags, protocol)
	if rawErr != nil {
		kind = DatagramSocket
		var datagramErr error
		fd, datagramErr = unix.Socket(family, unix.SOCK_DGRAM|flags, protocol)
		if datagramErr != nil {
			return -1, "", echoRefused(rawErr, datagramErr)
		}
	}
	if err := prepareEcho(fd, kind, v6, source, target); err != nil {
		return -1, "", errors.Join(fmt.Errorf("%s ICMP socket: %w", kind, err), unix.Close(fd))
	}
	return fd, kind, nil
}

func echoRefused(rawErr, datagramErr error) error {
	if !errors.Is(rawErr, unix.EPERM) && !errors.Is(rawErr, unix.EACCES) ||
		!errors.Is(datagramErr, unix.EPERM) && !errors.Is(datagramErr, unix.EACCES) {
		return fmt.Errorf("open ICMP socket: raw: %w; datagram: %w", rawErr, datagramErr)
	}
	return fmt.Errorf("open ICMP socket: raw: %w (needs CAP_NET_RAW); datagram: %w; %w", rawErr, datagramErr, ErrNotAllowed)
}

func prepareEcho(fd int, kind string, v6 bool, source, target netip.Addr) error {
	if kind == RawSocket {
		if err := onlyEchoReplies(fd, v6); err != nil {
			return err
		}
	}
	if err := Set(fd, ErrorQueue(v6), receiveTTL(v6)); err != nil {
		return err
	}
	return Connect(fd, source, netip.AddrPortFrom(target, 0))
}
