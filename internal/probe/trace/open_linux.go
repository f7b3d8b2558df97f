package trace

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/icmp/wire"
)

// open picks the best means that this process may use.
func open(ctx context.Context, p plan) (prober, error) {
	waiter, err := wire.NewWaiter(ctx)
	if err != nil {
		return nil, err
	}
	pr, err := openWith(p, waiter)
	if err != nil {
		return nil, errors.Join(err, waiter.Close())
	}
	return pr, nil
}

func openWith(p plan, waiter *wire.Waiter) (prober, error) {
	if p.protocol == measurement.OverICMP {
		return openEcho(p, waiter)
	}
	pr, err := openRaw(p, waiter)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return openSockets(p, waiter), nil
	}
	return pr, err
}

// icmpAnswer turns an ICMP error about probe id into an answer.
func icmpAnswer(p *plan, id int, control *wire.Control) answer {
	a := p.refusal(id, control.Offender, control.Error.Type, control.Error.Code)
	if wire.IsTooBig(p.v6, a.typ, a.code) {
		a.mtu = control.Error.Info
	}
	return a
}
