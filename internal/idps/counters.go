package idps

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Counters are those of an inspector since it was made. While it is off it
// counts nothing.
type Counters struct {
	Mode  Mode `json:"mode"`
	Rules int  `json:"rules"` // in force
	// Flows were inspected, of which Current are in the table.
	Flows   uint64 `json:"flows"`
	Current int    `json:"current_flows"`
	// Bytes of payload were searched, in order; what came twice counts once.
	Bytes uint64 `json:"bytes"`
	// Alerts are pairs of a flow and a rule that it matched; AlertedFlows are
	// the flows, and DeniedFlows those that were stopped for it.
	Alerts       uint64 `json:"alerts"`
	AlertedFlows uint64 `json:"alerted_flows"`
	DeniedFlows  uint64 `json:"denied_flows"`
	// DeniedFrames are frames of denied flows, all of which were dropped.
	DeniedFrames uint64 `json:"denied_frames"`
	// Fragments, and OtherFrames that are neither TCP nor UDP, passed without
	// being inspected.
	Fragments   uint64 `json:"fragments"`
	OtherFrames uint64 `json:"other_frames"`
	// LimitedFlows were not inspected in full: memory ran out, or a part of
	// them went another way.
	LimitedFlows uint64 `json:"limited_flows"`
}

// tally is written by one direction's thread and read by any.
type tally struct {
	flows, bytes, alerts, alertedFlows, deniedFlows, denied, fragments, others, limited atomic.Uint64
}

// Counters may be called at any time.
func (i *Inspector) Counters() Counters {
	c := Counters{Mode: i.Mode(), Rules: i.rules, Current: i.table.count()}
	for n := range i.workers {
		t := &i.workers[n].tally
		c.Flows += t.flows.Load()
		c.Bytes += t.bytes.Load()
		c.Alerts += t.alerts.Load()
		c.AlertedFlows += t.alertedFlows.Load()
		c.DeniedFlows += t.deniedFlows.Load()
		c.DeniedFrames += t.denied.Load()
		c.Fragments += t.fragments.Load()
		c.OtherFrames += t.others.Load()
		c.LimitedFlows += t.limited.Load()
	}
	return c
}

// MaxAlerts is how many alerts an inspector keeps; Counters counts all.
const MaxAlerts = 1000

// alertLog keeps the latest alerts.
type alertLog struct {
	mu     sync.Mutex
	alerts []AlertRecord
	next   int // where the next goes, once there are MaxAlerts
}

func (l *alertLog) add(a AlertRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.alerts) < MaxAlerts {
		l.alerts = append(l.alerts, a)
		return
	}
	l.alerts[l.next] = a
	l.next = (l.next + 1) % MaxAlerts
}

// Alerts are the latest alerts, at most MaxAlerts, the oldest first.
func (i *Inspector) Alerts() []AlertRecord {
	i.log.mu.Lock()
	defer i.log.mu.Unlock()
	return slices.Concat(i.log.alerts[i.log.next:], i.log.alerts[:i.log.next])
}
