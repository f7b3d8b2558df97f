package experiment

import (
	"fmt"

	"github.com/hopbench/hopbench/internal/measurement"
)

// socket is where a tunnel ends. VXLAN's networks share a port, WireGuard's tunnels have one
// each.
type socket struct{ port, id int }

// numberTunnels gives the tunnels that say no id, or of WireGuard no port, the first that no
// other one has.
func (l *loader) numberTunnels(files []FilePath, paths []Path) {
	taken, ports := make(map[socket]bool), make(map[int]bool)
	for i := range files {
		if t := files[i].Tunnel; t != nil && l.Written(&t.Port) {
			ports[paths[i].Tunnel.Port] = true
		}
	}
	said := func(i int) bool {
		f := files[i].Tunnel
		return l.Written(&f.ID) || paths[i].Tunnel.Type == WireGuard && l.Written(&f.Port)
	}
	for _, unsaid := range []bool{false, true} {
		for i := range files {
			t := paths[i].Tunnel
			if files[i].Tunnel == nil || t == nil || said(i) == unsaid {
				continue
			}
			for unsaid && t.Type == WireGuard && ports[t.Port] {
				t.Port++
			}
			for unsaid && t.Type != WireGuard && taken[socket{t.Port, t.ID}] {
				t.ID++
			}
			taken[socket{t.Port, t.ID}], ports[t.Port] = true, true
		}
	}
}

// tunnels checks what the tunnels of all paths have in common. Those of a path
// that is the same as another are the other's.
func (l *loader) tunnels(files []FilePath, paths []Path) {
	l.numberTunnels(files, paths)
	taken := make(map[socket]int) // path
	ports := make(map[int]int)    // path, by port
	for i := range files {
		f, t := files[i].Tunnel, paths[i].Tunnel
		if f == nil || t == nil || t.Type == "" {
			continue
		}
		for _, h := range paths[i].Hops {
			if h.Translate != "" || h.Backends > 0 {
				l.Wrong(f, "leave out the tunnel or the hop",
					"the tunnel of path %q cannot pass the %s %q, which changes the addresses that its ends send to", files[i].Name, h.Type, h.Name)
			}
		}
		if t.Port == measurement.DefaultPort {
			l.Wrong(&f.Port, "choose another, or leave it out", "port %d is that of hopbench's own tests", measurement.DefaultPort)
		}
		same, remedy := taken[socket{t.Port, t.ID}], fmt.Sprintf("give each an id of its own, as in id: %d", t.ID+1)
		if other, used := ports[t.Port]; used && (t.Type == WireGuard || paths[other-1].Tunnel.Type == WireGuard) {
			same, remedy = other, fmt.Sprintf("give each a port of its own, as in port: %d", t.Port+1)
		}
		if same != 0 {
			l.Wrong(f, remedy, "the tunnel of path %q (%s) ends in the same place at both endpoints as that of path %q (%s)",
				files[i].Name, t, files[same-1].Name, paths[same-1].Tunnel)
			continue
		}
		taken[socket{t.Port, t.ID}], ports[t.Port] = i+1, i+1
	}
}
