package sockets

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/hopbench/hopbench/internal/testutil"
)

// What arrives of a buffer that is sent zero-copy is the head that was given,
// what was written to the packets, and noise, whatever was sent before.
func TestSendPages(t *testing.T) {
	const size, packets, buffers, head = 1300, 50, 64, 32
	write := func(buffer, packet int, b []byte) { binary.BigEndian.PutUint32(b, uint32(buffer<<16|packet)) }
	p, err := NewPacketPages(buffers, packets, size, write)
	if !kernelSince(6, 5) {
		if !errors.Is(err, ErrUnsupported) {
			t.Fatalf("before Linux 6.5: %v", err)
		}
		return
	}
	testutil.OK(t, err)
	defer p.Close()
	t.Logf("in pages of %d bytes", p.PageBytes())

	far, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	testutil.OK(t, err)
	defer far.Close()
	conn, err := DialUDP(context.Background(), netip.AddrPort{}, far.LocalAddr().(*net.UDPAddr).AddrPort(), "")
	testutil.OK(t, err)
	defer conn.Close()
	s, err := NewPacketSender(conn, size, true)
	testutil.OK(t, err)
	filler, got := noise(packets*size), make([]byte, 2*size)
	for round := range 3 * buffers {
		buffer := round * 7 % buffers
		first := bytes.Repeat([]byte{byte(round)}, head)
		testutil.OK(t, s.SendPages(p, buffer, first))
		for packet := range packets {
			want := bytes.Clone(filler[packet*size:][:size])
			write(buffer, packet, want)
			if packet == 0 {
				copy(want, first)
			}
			n, err := far.Read(got)
			testutil.OK(t, err)
			if !bytes.Equal(got[:n], want) {
				t.Fatalf("buffer %d, packet %d: %d bytes, not those that were written", buffer, packet, n)
			}
		}
	}
}

func TestPacketPagesAreBounded(t *testing.T) {
	if !kernelSince(6, 5) {
		return // TestSendPages
	}
	for _, c := range []struct{ buffers, packets, size int }{{1, 64, 1024}, {maxPacketBuffers + 1, 2, 100}} {
		if p, err := NewPacketPages(c.buffers, c.packets, c.size, func(int, int, []byte) {}); err == nil {
			t.Errorf("%+v: made, %v", c, errors.Join(p.Close()))
		}
	}
}

func TestKernelSince(t *testing.T) {
	for _, c := range []struct {
		release      string
		major, minor int
		want         bool
	}{
		{"6.5.0", 6, 5, true},
		{"6.18.44-fc-v669", 6, 5, true},
		{"6.4.12-arch1", 6, 5, false},
		{"7.0", 6, 5, true},
		{"5.19.0-rc1", 6, 5, false},
		{"5.10.226", 4, 18, true},
		{"unknown", 0, 0, false},
		{"", 0, 0, false},
	} {
		if got := releaseSince(c.release, c.major, c.minor); got != c.want {
			t.Errorf("%s since %s: %v", c.release, fmt.Sprint(c.major, ".", c.minor), got)
		}
	}
}
