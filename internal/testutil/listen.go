package testutil

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"testing"
)

// FreePort is a port of loopback at which nobody listened a moment ago, neither
// with TCP nor with UDP. It lies below those that a system gives to whom asks for
// none, so that no other test gets it in the meantime.
func FreePort() (uint16, error) { return FreePorts(1) }

// FreePorts is the first of n such ports in a row.
func FreePorts(n int) (uint16, error) {
	for range 100 {
		first := 20_000 + rand.IntN(10_000)
		free := true
		for port := first; port < first+n && free; port++ {
			free = isFree(port)
		}
		if free {
			return uint16(first), nil
		}
	}
	return 0, errors.New("no free ports between 20000 and 30000")
}

func isFree(port int) bool {
	at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port))
	ln, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
	if err != nil {
		return false
	}
	defer ln.Close()
	u, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
	if err != nil {
		return false
	}
	u.Close()
	return true
}

// Listen serves every connection to a port of loopback, each in a goroutine of
// its own, and closes it afterwards, or when t ends.
func Listen(t testing.TB, serve func(net.Conn)) netip.AddrPort {
	t.Helper()
	return ListenAt(t, netip.AddrFrom4([4]byte{127, 0, 0, 1}), serve)
}

// ListenAt is Listen at an address of this host.
func ListenAt(t testing.TB, at netip.Addr, serve func(net.Conn)) netip.AddrPort {
	t.Helper()
	ln, err := net.Listen("tcp", netip.AddrPortFrom(at, 0).String())
	OK(t, err)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			wg.Go(func() {
				defer c.Close()
				serve(c)
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return ln.Addr().(*net.TCPAddr).AddrPort()
}
