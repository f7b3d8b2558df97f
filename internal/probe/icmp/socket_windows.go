package icmp

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/hopbench/hopbench/internal/probe/icmp/iphelper"
)

// requests pings by the IP Helper API, which tells ICMP errors, but neither
// duplicates nor answers that come too late.
type requests struct {
	plan    plan
	api     *iphelper.Requests
	payload []byte
	answers []iphelper.Answer
}

// initialTTL is Windows' own (DefaultTTL).
const initialTTL = 128

func open(ctx context.Context, p plan) (conn, error) {
	api, err := iphelper.Open(ctx, p.source, p.target)
	if err != nil {
		return nil, err
	}
	return &requests{plan: p, api: api, payload: slices.Concat(p.cookie, p.filler)}, nil
}

func (r *requests) socket() string { return "IP Helper API" }

func (r *requests) close() error { return r.api.Close() }

func (r *requests) send(index int) error {
	return r.api.Send(index, initialTTL, r.payload, r.plan.timeout)
}

func (r *requests) wait(until time.Time, events []event) ([]event, error) {
	r.answers = r.api.Wait(until, r.answers[:0])
	for i := range r.answers {
		if ev, ok := r.interpret(&r.answers[i]); ok {
			events = append(events, ev)
		}
	}
	return events, nil
}

func (r *requests) interpret(a *iphelper.Answer) (event, bool) {
	ev := event{what: replied, sequence: uint16(a.ID), at: time.Now(), took: a.Took, ttl: a.TTL}
	if a.Err != nil {
		ev.what, ev.err = notSent, a.Err
		return ev, true
	}
	if a.Status == iphelper.Success {
		return ev, bytes.HasPrefix(a.Payload, r.payload)
	}
	ev.what, ev.failure.from = refused, a.From
	var ok bool
	ev.failure.typ, ev.failure.code, ok = a.Status.ICMP(r.plan.v6)
	if !ok {
		ev.what, ev.err = notSent, a.Status
	}
	return ev, true
}
