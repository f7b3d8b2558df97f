package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/lab/labtest"
	"github.com/hopbench/hopbench/internal/linkem"
	"github.com/hopbench/hopbench/internal/testutil"
)

const (
	// unreadBuffer is the receive buffer of holdTraffic, in bytes.
	unreadBuffer = 256 << 10
	// oneWrite is what fillTraffic hands over at once, as ntttcp's sender does.
	oneWrite = 128 << 10
)

// holdTraffic accepts connections and never reads from them.
func holdTraffic(address string) error {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		return errors.Join(c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, unreadBuffer)
		}), err)
	}}
	listener, err := config.Listen(context.Background(), "tcp", address)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		defer conn.Close() // when the listener fails; until then it is held
	}
}

// fillTraffic writes over two connections until neither takes any more, or more
// than most writes were taken, and says how many whole writes were.
func fillTraffic(source, target, most string) error {
	limit, err := strconv.Atoi(most)
	if err != nil {
		return err
	}
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
	writes := make(chan int)
	for range 2 {
		conn, err := dialer.Dial("tcp", target)
		if err != nil {
			return err
		}
		go func() { writes <- fill(conn, limit) }()
	}
	fmt.Println(<-writes+<-writes, "writes")
	return nil
}

// fill is how many whole writes a connection takes.
func fill(conn net.Conn, limit int) int {
	block := make([]byte, oneWrite)
	for whole := 0; whole <= limit; whole++ {
		for left := block; len(left) > 0; {
			_ = conn.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
			n, err := conn.Write(left)
			if left = left[n:]; err != nil && n == 0 {
				return whole
			}
		}
	}
	return limit + 1
}

// What a sender hands over to a peer that accepts and never reads is what the
// buffers take, and no rate of the path: of 128 KiB with this window about the 20 to
// 22 writes that published runs of 60 s counted.
func TestSenderToAPeerThatNeverReads(t *testing.T) {
	t.Parallel() // it waits for most of its time
	wire := linkem.Direction{Delay: 2 * time.Millisecond, RateBitsPerSecond: 100e6}
	l := startLab(t, chain(1, &linkem.Config{Forward: wire, Backward: wire}))
	from, to := labtest.Address(0, 0, 1).Addr(), labtest.Address(0, 1, 2).Addr()
	target := netip.AddrPortFrom(to, trafficPort).String()
	listening(t, l, "destination", "hold", target)
	// What two sockets may hold at most at this end (tcp_wmem), and at the other,
	// where SO_RCVBUF is doubled (tcp(7), socket(7)).
	limits, err := os.ReadFile("/proc/sys/net/ipv4/tcp_wmem")
	testutil.OK(t, err)
	largest, err := strconv.Atoi(strings.Fields(string(limits))[2])
	testutil.OK(t, err)
	most := 2 * (largest + 2*unreadBuffer) / oneWrite
	text := must(t, l, "source", selfExecutable, "traffic", "fill", from.String(), target, strconv.Itoa(most))
	var writes int
	if _, err := fmt.Sscan(text, &writes); err != nil || writes < 2 || writes > most {
		t.Errorf("a peer that reads nothing took %q of %d bytes, want 2 to %d", strings.TrimSpace(text), oneWrite, most)
	}
	t.Logf("it took %d writes of %d bytes", writes, oneWrite)
}
