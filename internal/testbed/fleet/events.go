package fleet

import "github.com/hopbench/hopbench/internal/event"

// told is what was said last of machines and seats.
type told struct {
	pairs map[int]toldPair // by the ids of seats
	seats event.Seats
}

// toldPair is who has a seat.
type toldPair struct {
	client, server string
	lost           bool
}

// tell says what happened to a machine or a seat, and how all stand since. The caller holds
// the lock.
func (f *Fleet) tell(code event.Code, what event.Fleet, why error) {
	if f.OnEvent == nil {
		return
	}
	what.Machines, what.Seats = len(f.members), f.told.seats
	e := event.Event{Code: code, Fleet: &what}
	if why != nil {
		e.Text = why.Error()
	}
	f.OnEvent(e)
}

// waiting says how many seats are in the queue, for a client.
func (f *Fleet) waiting(seats int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.told.seats.Waiting != seats {
		f.told.seats.Waiting = seats
		f.tell(event.Queued, event.Fleet{}, nil)
	}
}

// leased says that a client has a seat.
func (f *Fleet) leased(id int, client, server string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch before, known := f.told.pairs[id]; {
	case !known:
		f.told.seats.Leased++
	case before.lost:
		f.told.seats.Lost--
		f.told.seats.Leased++
	}
	f.told.pairs[id] = toldPair{client: client, server: server}
	f.tell(event.Leased, event.Fleet{Seat: id, Client: client, Server: server}, nil)
}

// tellLeft says that a machine is gone, and that the seats are lost which were its. The caller
// holds the lock.
func (f *Fleet) tellLeft(name string, why error) {
	if f.ctx.Err() != nil {
		return // all leave at the end
	}
	f.tell(event.Left, event.Fleet{Machine: name}, why)
	for id, p := range f.told.pairs {
		if !p.lost && (p.client == name || p.server == name) {
			p.lost = true
			f.told.pairs[id] = p
			f.told.seats.Leased--
			f.told.seats.Lost++
			f.tell(event.Vacated, event.Fleet{Seat: id, Client: p.client, Server: p.server}, why)
		}
	}
}
