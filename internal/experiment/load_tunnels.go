package experiment

import (
	"fmt"

	"github.com/hopbench/hopbench/internal/measurement"
)

// tunnels checks what the tunnels of all paths have in common. Those of a path
// that is the same as another are the other's.
func (l *loader) tunnels(files []FilePath, paths []Path) {
	type socket struct {
		port, id int
	}
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
		// VXLAN's networks share a port, WireGuard's tunnels have one each.
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
