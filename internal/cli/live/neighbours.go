package live

import (
	"fmt"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/neighbour"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/words"
)

// Neighbours notes who else measures on this machine while a run does. That it
// cannot is a note as well, and never an error.
type Neighbours struct {
	head     *store.Head         // of the run
	presence *neighbour.Presence // nil where nobody can be found, and after leave
	show     *Progress
	known    int // who had come when since was asked last
}

// WatchMachine notes what else this machine does while a run of an experiment is measured, and
// tells other runs of this one. The caller leaves.
func WatchMachine(head *store.Head, experiment string, show *Progress) *Neighbours {
	n := &Neighbours{head: head, show: show}
	var err error
	if n.presence, err = neighbour.Join(neighbour.Run{Experiment: experiment, Started: head.Started}); err != nil {
		n.note(fmt.Sprintf("Whether other runs were under way on this machine at the same time is not known: %v.", err))
	}
	n.Look()
	if runnable, cpus, stolen, err := hostinfo.OthersLoad(); err == nil {
		if warning := words.LoadedMachine(runnable, cpus, stolen); warning != "" {
			n.note(warning)
		}
	}
	return n
}

// Look notes who has come, and says whether anybody has.
func (n *Neighbours) Look() (news bool) {
	if n.presence == nil {
		return false
	}
	for _, other := range n.presence.Others() {
		name := "that does not say which"
		if other.Experiment != "" {
			name = base.Shown(other.Experiment)
		}
		if !other.Started.IsZero() {
			name += ", begun " + other.Started.UTC().Format("2006-01-02 15:04:05 UTC")
		}
		news = n.note(fmt.Sprintf("Another run was under way on this machine at the same time (%s): each took CPU time from the other.", name)) || news
	}
	return news
}

// Since is how many other runs have been under way since it was asked last: those that
// are, or else those that have come and gone.
func (n *Neighbours) Since() int {
	if n.presence == nil {
		return 0
	}
	before := n.known
	n.known = len(n.presence.Others())
	return max(n.presence.Alive(), n.known-before)
}

// note keeps and tells a sentence that is new.
func (n *Neighbours) note(sentence string) bool {
	if !n.head.Note(sentence) {
		return false
	}
	n.show.Facts([]string{sentence})
	return true
}

// Leave ends the run's presence and notes who came last. A second leave does
// nothing.
func (n *Neighbours) Leave() {
	if n.presence == nil {
		return
	}
	_ = n.presence.Leave() // its socket may be left behind, which harms nobody
	n.Look()
	n.presence = nil
}
