package samples

import (
	"encoding/json"
	"slices"
)

// Result is what a test of a seat brought, and is kept once by its Key, which has no Seq.
type Result struct {
	Key
	Agent   string          `json:"-"` // whose it is; nothing in an Outbox
	Outcome json.RawMessage `json:"outcome"`
}

func (r Result) size() int { return overhead + len(r.Outcome) }

// Finished holds what a test brought until Settled: its connection may end before anybody has
// kept it. Samples are made coarser to make room for it.
func (o *Outbox) Finished(r Result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.results = append(o.results, r)
	o.bytes += r.size()
	o.shrink()
}

// Results are those that are held, the oldest first.
func (o *Outbox) Results() []Result {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.results)
}

// Settled lets go of a result, if it is held: somebody keeps it.
func (o *Outbox) Settled(key Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.results = slices.DeleteFunc(o.results, func(r Result) bool {
		if r.Key != key {
			return false
		}
		o.bytes -= r.size()
		return true
	})
}

// shrinkResults drops the oldest results, but for one, where there is no other room.
func (o *Outbox) shrinkResults() {
	for o.bytes > o.limit && len(o.results) > 1 {
		o.bytes -= o.results[0].size()
		o.results = slices.Delete(o.results, 0, 1)
	}
}
