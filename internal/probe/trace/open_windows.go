package trace

import (
	"context"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/icmp/iphelper"
)

// requests traces by the IP Helper API, which sends echo requests whatever
// protocol was asked for.
type requests struct {
	plan    plan
	api     *iphelper.Requests
	sent    []time.Time // by probe
	payload []byte
	answers []iphelper.Answer
}

func open(ctx context.Context, p plan) (prober, error) {
	api, err := iphelper.Open(ctx, p.source, p.target.Addr())
	if err != nil {
		return nil, err
	}
	return &requests{plan: p, api: api, payload: make([]byte, 32)}, nil // as tracert's are
}

func (r *requests) send(id, ttl int) error {
	r.sent = append(r.sent, time.Now()) // probes are numbered from 0
	return r.api.Send(id, ttl, r.payload, r.plan.timeout)
}

func (r *requests) wait(until time.Time, answers []answer) ([]answer, error) {
	r.answers = r.api.Wait(until, r.answers[:0])
	for i := range r.answers {
		a := &r.answers[i]
		if a.Err != nil {
			return answers, a.Err
		}
		if judged, ok := r.judge(a); ok {
			answers = append(answers, judged)
		}
	}
	return answers, nil
}

// judge says what an answer means; what is no ICMP error says nothing.
func (r *requests) judge(a *iphelper.Answer) (answer, bool) {
	at := r.sent[a.ID].Add(a.Took)
	if a.Status == iphelper.Success {
		return answer{id: a.ID, from: a.From, at: at, verdict: arrived}, true
	}
	typ, code, ok := a.Status.ICMP(r.plan.v6)
	judged := r.plan.refusal(a.ID, a.From, typ, code)
	judged.at = at
	return judged, ok
}

func (r *requests) effective() map[string]string {
	return map[string]string{"trace_socket": "IP Helper API", "trace_flows": "one for each probe", "trace_protocol": string(measurement.OverICMP)}
}

func (r *requests) facts() []string { return r.plan.onlyEcho() }

func (r *requests) close() error { return r.api.Close() }
