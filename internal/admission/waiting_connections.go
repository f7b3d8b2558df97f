package admission

import (
	"container/list"
	"net/netip"
	"sync"
)

// Door holds connections that have not yet said what they want. It never turns one
// away: when it is full, the one that has waited longest, of the client that has
// most of them, has to go. An honest client is through in a few round trips, so
// that whoever fills the door with silence pushes out himself.
type Door struct {
	most int

	mu      sync.Mutex
	guests  list.List // of *Guest, the oldest first
	clients map[netip.Prefix]int
	pushed  uint64
}

// Guest is a connection at the door.
type Guest struct {
	door   *Door
	client netip.Prefix
	end    func()
	at     *list.Element
}

// NewDoor returns a door with room for so many connections.
func NewDoor(most int) *Door { return &Door{most: max(most, 1), clients: map[netip.Prefix]int{}} }

// Enter has a connection wait; end is called, at most once, when it has to go.
func (d *Door) Enter(client netip.Addr, end func()) *Guest {
	g := &Guest{door: d, client: Client(client), end: end}
	d.mu.Lock()
	var out *Guest
	if d.guests.Len() >= d.most {
		out = d.longest()
		d.remove(out)
		d.pushed++
	}
	g.at = d.guests.PushBack(g)
	d.clients[g.client]++
	d.mu.Unlock()
	if out != nil {
		out.end()
	}
	return g
}

// longest is the oldest guest of the client that has most of them.
func (d *Door) longest() *Guest {
	most := 0
	for _, n := range d.clients {
		most = max(most, n)
	}
	for at := d.guests.Front(); ; at = at.Next() {
		if g := at.Value.(*Guest); d.clients[g.client] == most {
			return g
		}
	}
}

func (d *Door) remove(g *Guest) {
	d.guests.Remove(g.at)
	g.at = nil
	if d.clients[g.client]--; d.clients[g.client] == 0 {
		delete(d.clients, g.client)
	}
}

// Leave says that the connection went in, or went away. It may be called again.
func (g *Guest) Leave() {
	g.door.mu.Lock()
	defer g.door.mu.Unlock()
	if g.at != nil {
		g.door.remove(g)
	}
}

// Waiting is how many connections wait, Pushed how many had to go so far.
func (d *Door) Waiting() (waiting int, pushed uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.guests.Len(), d.pushed
}
