package cable_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/cable"
	"github.com/hopbench/hopbench/internal/cable/cabletest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// needCable skips unless ports of the kind can be opened here.
func needCable(t *testing.T, kind cable.Kind) {
	t.Helper()
	testutil.Need(t, cabletest.Inside(), "a user namespace or root")
	if kind == cable.TAP {
		f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
		testutil.Need(t, err == nil, "access to /dev/net/tun")
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// running is a pair of namespaces with a cable that carries frames.
type running struct {
	*cabletest.Pair
	*cable.Cable
	cancel context.CancelFunc
	ended  chan error // Run's result
}

func start(t *testing.T, kind cable.Kind, cfg cable.Config) *running {
	t.Helper()
	needCable(t, kind)
	pair, err := cabletest.NewPair(kind, cfg)
	if err != nil {
		t.Fatal(err)
	}
	c, err := cable.New(pair.Ports[0], pair.Ports[1], cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{Pair: pair, Cable: c, cancel: cancel, ended: make(chan error, 1)}
	go func() { r.ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := pair.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// stop ends Run and returns what it said.
func (r *running) stop(t *testing.T) error {
	t.Helper()
	r.cancel()
	return r.result(t)
}

func (r *running) result(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.ended:
		return err
	case <-time.After(30 * time.Second):
		t.Fatal("Run does not return")
		return nil
	}
}

var kinds = []cable.Kind{cable.TAP, cable.Packet}

func TestTCPArrivesIntact(t *testing.T) {
	for _, kind := range kinds {
		for _, noOffload := range []bool{false, true} {
			for name, direction := range map[string]cable.Direction{
				"direct":  {},
				"delayed": {Delay: time.Millisecond},
			} {
				cfg := cable.Config{Forward: direction, Backward: direction, NoOffload: noOffload, Seed: 7}
				t.Run(fmt.Sprintf("%s/offload=%v/%s", kind, !noOffload, name), func(t *testing.T) {
					r := start(t, kind, cfg)
					t.Run("IPv4", func(t *testing.T) { transfer(t, r, r.Address4(1)) })
					t.Run("IPv6", func(t *testing.T) { transfer(t, r, r.Address6(1)) })
					if err := r.stop(t); err != nil {
						t.Errorf("Run: %v", err)
					}
				})
			}
		}
	}
}

// transfer sends bytes both ways over one connection and compares digests.
func transfer(t *testing.T, r *running, to netip.Addr) {
	t.Helper()
	const size = 8 << 20
	var listener *net.TCPListener
	err := r.Do(1, func() (err error) {
		listener, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(to, 0)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	type received struct {
		digest [sha256.Size]byte
		err    error
	}
	got := make(chan received, 1)
	go func() {
		conn, err := listener.AcceptTCP()
		if err != nil {
			got <- received{err: err}
			return
		}
		defer conn.Close()
		hash := sha256.New()
		if _, err := io.Copy(io.MultiWriter(hash, conn), conn); err != nil {
			got <- received{err: err}
			return
		}
		got <- received{digest: [sha256.Size]byte(hash.Sum(nil)), err: conn.CloseWrite()}
	}()
	var conn *net.TCPConn
	err = r.Do(0, func() (err error) {
		conn, err = net.DialTCP("tcp", nil, listener.Addr().(*net.TCPAddr))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	payload := make([]byte, size)
	random := rand.NewChaCha8([32]byte{1})
	if _, err := random.Read(payload); err != nil {
		t.Fatal(err)
	}
	wrote := make(chan error, 1)
	go func() {
		_, err := conn.Write(payload)
		if err == nil {
			err = conn.CloseWrite()
		}
		wrote <- err
	}()
	echo := sha256.New()
	n, err := io.Copy(echo, conn)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
	there := <-got
	if there.err != nil {
		t.Fatal(there.err)
	}
	want := sha256.Sum256(payload)
	if there.digest != want {
		t.Error("the bytes that arrived are not those that were sent")
	}
	if n != size || [sha256.Size]byte(echo.Sum(nil)) != want {
		t.Errorf("the %d bytes that came back are not the %d that were sent", n, size)
	}
}
