package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// socketAt opens a socket in an end's namespace, bound to the end's IPv4
// address and any port.
func socketAt(b *bed, end, kind int) (fd int, err error) {
	fd = -1
	err = b.Do(end, func() error {
		if fd, err = unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrInet4{Addr: b.Address4(end).As4()})
	})
	if err != nil {
		return -1, fmt.Errorf("open socket of end %d: %w", end, err)
	}
	// A lost datagram or a dead link emulator must not stop the benchmark.
	limit := unix.NsecToTimeval(int64(2 * time.Second))
	return fd, errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit))
}

// udpPair is two UDP sockets connected to each other through the link emulator.
func udpPair(b *bed) (fds [2]int, err error) {
	for i := range fds {
		if fds[i], err = socketAt(b, i, unix.SOCK_DGRAM); err != nil {
			return fds, err
		}
	}
	for i := range fds {
		peer, err := unix.Getsockname(fds[1-i])
		if err != nil {
			return fds, err
		}
		if err := unix.Connect(fds[i], peer); err != nil {
			return fds, err
		}
	}
	return fds, nil
}

// read is the system call, again when a signal cut it short: a socket with a
// time limit is not restarted by the kernel.
func read(fd int, buffer []byte) (int, error) {
	for {
		n, err := unix.Read(fd, buffer)
		if err != unix.EINTR {
			return n, err
		}
	}
}

// echoes measures n round trips of 64 bytes, after a few that fill the
// neighbour tables and caches, with a pause between them.
func echoes(b *bed, n int, pause time.Duration) ([]time.Duration, error) {
	const warmUp = 5
	fds, err := udpPair(b)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fds[0])
	served := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer unix.Close(fds[1])
		buffer := make([]byte, 64)
		for range n + warmUp {
			if _, err := read(fds[1], buffer); err != nil {
				served <- fmt.Errorf("echo: %w", err)
				return
			}
			if _, err := unix.Write(fds[1], buffer); err != nil {
				served <- fmt.Errorf("echo: %w", err)
				return
			}
		}
		served <- nil
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	trips := make([]time.Duration, 0, n)
	buffer := make([]byte, 64)
	for i := range n + warmUp {
		if pause > 0 {
			time.Sleep(pause)
		}
		start := time.Now()
		if _, err := unix.Write(fds[0], buffer); err != nil {
			return nil, errors.Join(err, <-served)
		}
		if _, err := read(fds[0], buffer); err != nil {
			return nil, errors.Join(err, <-served)
		}
		if i >= warmUp {
			trips = append(trips, time.Since(start))
		}
	}
	return trips, <-served
}

// datagrams sends n datagrams in bursts that every queue on the way can hold
// and returns how many arrived. A burst is known to be over when a marker, sent
// after it until one arrives, is there: order is kept.
func datagrams(b *bed, n int) (arrived int, err error) {
	const burst, marker = 64, 1 << 63
	fds, err := udpPair(b)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	patience := unix.NsecToTimeval(int64(20 * time.Millisecond))
	if err := unix.SetsockoptTimeval(fds[1], unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience); err != nil {
		return 0, err
	}
	buffer := make([]byte, 64)
	send := func(value uint64) error {
		binary.BigEndian.PutUint64(buffer, value)
		_, err := unix.Write(fds[0], buffer)
		return err
	}
	for round, sent := uint64(marker), 0; sent < n; round++ {
		for i := 0; i < burst && sent < n; i++ {
			if err := send(uint64(sent)); err != nil {
				return 0, err
			}
			sent++
		}
		if err := send(round); err != nil {
			return 0, err
		}
		for tries := 0; ; {
			_, err := read(fds[1], buffer)
			if err == unix.EAGAIN && tries < 50 {
				tries++
				err = send(round)
				if err == nil {
					continue
				}
			}
			if err != nil {
				return 0, fmt.Errorf("wait for the end of a burst: %w", err)
			}
			value := binary.BigEndian.Uint64(buffer)
			if value == round {
				break
			}
			if value < marker {
				arrived++
			}
		}
	}
	return arrived, nil
}

// transfer sends over TCP connections for a while and returns their goodput at
// the receiver in bits per second, without the first quarter of the time. A
// small window keeps a slow wire's queue short; several flows together keep a
// fast wire's queue from running empty when a sender must wait for a CPU.
func transfer(b *bed, length time.Duration, flows int, smallWindow bool) (float64, error) {
	listener, err := socketAt(b, 1, unix.SOCK_STREAM)
	if err != nil {
		return 0, err
	}
	defer unix.Close(listener)
	if smallWindow {
		if err := unix.SetsockoptInt(listener, unix.SOL_SOCKET, unix.SO_RCVBUF, 200<<10); err != nil {
			return 0, err
		}
	}
	if err := unix.Listen(listener, flows); err != nil {
		return 0, err
	}
	m := &meter{start: time.Now().Add(length / 4)}
	results := make(chan error, 2*flows)
	for range flows {
		go func() { results <- receive(listener, m) }()
		go func() { results <- send(b, listener, length) }()
	}
	for range 2 * flows {
		err = errors.Join(err, <-results)
	}
	if err == nil && !m.last.After(m.first) {
		err = errors.New("nothing arrived after the warm-up")
	}
	return float64(m.bytes) * 8 / m.last.Sub(m.first).Seconds(), err
}

// meter counts what arrives on all flows, from the first arrival after start to
// the last one. The arrival that starts the clock is not counted.
type meter struct {
	start time.Time

	mu          sync.Mutex
	first, last time.Time
	bytes       int
}

func (m *meter) arrived(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	switch {
	case now.Before(m.start):
	case m.first.IsZero():
		m.first = now
	default:
		m.bytes += n
		m.last = now
	}
}

func send(b *bed, listener int, length time.Duration) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fd, err := socketAt(b, 0, unix.SOCK_STREAM)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	to, err := unix.Getsockname(listener)
	if err != nil {
		return err
	}
	if err := unix.Connect(fd, to); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	buffer := make([]byte, 256<<10)
	for start := time.Now(); time.Since(start) < length; {
		if _, err := unix.Write(fd, buffer); err != nil && err != unix.EAGAIN && err != unix.EINTR {
			return fmt.Errorf("send: %w", err)
		}
	}
	// The queue need not be emptied: what is left is of no interest.
	return unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
}

// receive accepts one connection and meters it until its end.
func receive(listener int, m *meter) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fd, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC)
	if err != nil {
		return fmt.Errorf("accept: %w", err)
	}
	defer unix.Close(fd)
	buffer := make([]byte, 256<<10)
	for {
		n, err := read(fd, buffer)
		if n == 0 || err == unix.ECONNRESET || err == unix.EAGAIN {
			// The end, or that of a link emulator that the end cannot cross: the
			// meter knows what arrived until then.
			return nil
		}
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		m.arrived(n)
	}
}
