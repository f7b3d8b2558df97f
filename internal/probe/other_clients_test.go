package probe_test

import (
	"io"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/testutil"
)

// chat does request and response with a server, from a local address, until the returned
// function is called.
func chat(t *testing.T, target netip.AddrPort, from, token string) (end func()) {
	t.Helper()
	c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext(servertest.Context(t), "tcp", target.String())
	testutil.OK(t, err)
	id, err := session.NewID()
	testutil.OK(t, err)
	testutil.OK(t, protocol.ClientHandshake(c, token, protocol.Identity{Session: id}))
	spec := measurement.Spec{Kind: measurement.RR, Duration: 60}.Defaults()
	testutil.OK(t, protocol.WriteFrame(c, protocol.TypeOpen, protocol.Open{Spec: spec, Run: "another"}))
	testutil.OK(t, protocol.Expect(c, protocol.TypeReady, protocol.MaxControl, &protocol.Ready{}))
	testutil.OK(t, protocol.WriteFrame(c, protocol.TypeStart, nil))
	once := func() error {
		_, err := c.Write(make([]byte, spec.RequestBytes))
		if err == nil {
			_, err = io.ReadFull(c, make([]byte, spec.ResponseBytes))
		}
		return err
	}
	testutil.OK(t, once())
	var chatting sync.WaitGroup
	chatting.Go(func() {
		for once() == nil {
			time.Sleep(time.Millisecond)
		}
	})
	return func() {
		_ = c.Close()
		chatting.Wait()
	}
}

// A client is told who else tested with the server meanwhile, by whatever kind of test; by
// name if both proved the token.
func TestOtherClients(t *testing.T) {
	testutil.Need(t, runtime.GOOS == "linux", "Linux, where all of 127.0.0.0/8 is here")
	t.Parallel()
	one := []measurement.Spec{{Kind: measurement.TCP}}
	all := append(one, []measurement.Spec{
		{Kind: measurement.TCP, Flows: 3, Direction: measurement.Receive}, {Kind: measurement.UDP, RateBitsPerSecond: 1e6},
		{Kind: measurement.UDP, RateBitsPerSecond: 1e6, Direction: measurement.Receive}, {Kind: measurement.RR}, {Kind: measurement.CRR}, {Kind: measurement.Load},
	}...)
	for _, c := range []struct {
		name  string
		o     probe.ServerOptions
		other string
		want  string // its address
		told  bool
		specs []measurement.Spec
	}{
		{"by name", probe.ServerOptions{Token: servertest.Token}, "127.0.0.2", "127.0.0.2", true, all},
		{"another run of this machine", probe.ServerOptions{Token: servertest.Token}, "127.0.0.1", "127.0.0.1", true, one},
		{"without a token", probe.ServerOptions{}, "127.0.0.2", "", true, one},
		{"of one coordinator", probe.ServerOptions{Token: servertest.Token, Unshared: true}, "127.0.0.2", "", false, one},
		{"alone", probe.ServerOptions{Token: servertest.Token}, "", "", false, one},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := servertest.Serve(t, c.o)
			if c.other != "" {
				defer chat(t, target, c.other, c.o.Token)()
			}
			for _, spec := range c.specs {
				spec.Duration, spec.MaxWarmup = 0.2, 0.1
				testutil.Longer(t, func(factor float64) string {
					spec.Duration = measurement.Seconds(0.2 * factor)
					out, err := probe.Run(servertest.Context(t), probe.Request{ID: "t", Spec: spec, Target: target, Token: c.o.Token}, nil)
					if err != nil { // a busy machine sent nothing in that time
						return err.Error()
					}
					told := out.Destination.OtherClients
					if c.told && told == nil {
						return string(spec.Kind) + ": nothing is told, although another tested at the same time"
					}
					if (told != nil) != c.told || told != nil && (told.Count != 1 || told.Address != c.want || told.Bytes <= 0) {
						t.Errorf("%s: told of %+v, want it of %q", spec.Kind, told, c.want)
					}
					return ""
				})
			}
		})
	}
}
