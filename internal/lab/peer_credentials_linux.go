package lab

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// ownPeer checks that the process at the other end runs as this user and in this
// process's namespaces. A uid alone says too little: root of a container has
// root's, and reaches the socket where the container has its folder (of the
// abstract sockets of old, CVE-2020-15257). What cannot be read is refused.
func ownPeer(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peerErr error
	if err := raw.Control(func(fd uintptr) { peerErr = ownProcess(int(fd)) }); err != nil {
		return err
	}
	return peerErr
}

// ownProcess is ownPeer for the process that connected a socket, or listened.
func ownProcess(socket int) error {
	peer, err := unix.GetsockoptUcred(socket, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return fmt.Errorf("ask who is at the other end: %w", err)
	}
	if int(peer.Uid) != os.Geteuid() {
		return fmt.Errorf("the other end is user %d, not %d", peer.Uid, os.Geteuid())
	}
	if peer.Pid == 0 {
		return errors.New("the other end is in another pid namespace")
	}
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return fmt.Errorf("cannot see who is at the other end: /proc is not that of this pid namespace (%w)", err)
	}
	process, err := unix.Open(fmt.Sprintf("/proc/%d", peer.Pid), unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("look at process %d, the other end: %w", peer.Pid, err)
	}
	defer unix.Close(process)
	if err := stillThere(socket); err != nil {
		return fmt.Errorf("look at process %d, the other end: %w", peer.Pid, err)
	}
	for _, kind := range []string{"user", "mnt", "pid"} {
		own, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			return fmt.Errorf("read this process's %s namespace: %w", kind, err)
		}
		buf := make([]byte, 64)
		n, err := unix.Readlinkat(process, "ns/"+kind, buf)
		if err != nil {
			return fmt.Errorf("read the %s namespace of process %d, the other end: %w", kind, peer.Pid, err)
		}
		if its := string(buf[:n]); its != own {
			return fmt.Errorf("the other end, process %d, is in another %s namespace (%s, not %s): a lab is entered from the namespaces of whoever holds it", peer.Pid, kind, its, own)
		}
	}
	return nil
}

// stillThere says whether the peer of a socket has ended, so that its number may
// be another's by now. Before Linux 6.5 nothing tells: there, who connects, ends
// and has the number given to a process of this user in the moment until the
// number is looked at is taken for that one.
func stillThere(socket int) error {
	pidfd, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if errors.Is(err, unix.ENOPROTOOPT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(pidfd)
	return unix.PidfdSendSignal(pidfd, 0, nil, 0)
}
