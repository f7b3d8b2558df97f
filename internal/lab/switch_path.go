package lab

import (
	"context"
	"fmt"

	"github.com/hopbench/hopbench/internal/idps"
	"github.com/hopbench/hopbench/internal/lab/message"
)

// Switch brings the nodes of a path into its state, whatever their state was.
// Packets that are under way arrive; connections go on over the other way.
func (l *Lab) Switch(ctx context.Context, path string) error {
	state := l.topology.State(path)
	if state == nil {
		return l.topology.UnknownState(path)
	}
	l.switching.Lock()
	defer l.switching.Unlock()
	l.setInForce(state.Of, "")
	if _, err := l.request(ctx, message.Switch, path, nil, nil); err != nil {
		return fmt.Errorf("switch to path %s: %w", path, err)
	}
	for _, m := range state.Modes {
		if err := l.SetMode(ctx, m.Node, idps.Mode(m.Mode)); err != nil {
			return fmt.Errorf("switch to path %s: %w", path, err)
		}
	}
	l.setInForce(state.Of, path)
	return nil
}

// setInForce notes which path the nodes of one are in the state of, empty for
// none that is known.
func (l *Lab) setInForce(of, path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inForce[of] = path
}

// SwitchedPaths are the paths that Switch knows, in the order of the experiment.
func (l *Lab) SwitchedPaths() []SwitchedPath {
	l.mu.Lock()
	defer l.mu.Unlock()
	var paths []SwitchedPath
	for _, s := range l.topology.States {
		now, switched := l.inForce[s.Of]
		if !switched {
			now = s.Of // as it is built
		}
		paths = append(paths, SwitchedPath{Name: s.Path, Of: s.Of, InForce: s.Path == now})
	}
	return paths
}
