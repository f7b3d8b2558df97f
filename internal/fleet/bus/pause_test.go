package bus

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/fleet/join"
	"github.com/hopbench/hopbench/internal/fleet/subject"
	"github.com/hopbench/hopbench/internal/testutil"
	"github.com/nats-io/nkeys"
)

// An agent leaves a broker that is too busy for it the more time the more often it tried.
func TestPauses(t *testing.T) {
	pause := maxPause
	for i, c := range []struct {
		err  error
		want time.Duration
	}{
		{errors.New("refused"), maxPause}, {errBusy, 2 * maxPause}, {errBusy, 4 * maxPause}, {errBusy, longestPause}, {errBusy, longestPause}, {errors.New("refused"), maxPause},
	} {
		if pause = pauseAfter(c.err, pause); pause != c.want {
			t.Errorf("pause %d: at most %v, want %v", i, pause, c.want)
		}
	}
}

// What ends a connection before the agent is let in is busy; nobody there is not.
func TestBusy(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.OK(t, err)
	defer ln.Close()
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	secret, _, err := join.Open(t.TempDir()+"/join", "fw")
	testutil.OK(t, err)
	pair, err := nkeys.CreateUser()
	testutil.OK(t, err)
	key, err := pair.PublicKey()
	testutil.OK(t, err)
	a := &agent{AgentOptions: AgentOptions{Address: ln.Addr().String(), File: secret.File}, Agent: subject.Agent{Fleet: "fw", Name: "vm-1", Key: key}, pair: pair}
	if _, _, err := a.connect(t.Context(), func(error) {}); !errors.Is(err, errBusy) {
		t.Error(err)
	}
	testutil.OK(t, ln.Close())
	if _, _, err := a.connect(context.Background(), func(error) {}); err == nil || errors.Is(err, errBusy) {
		t.Error(err)
	}
}
