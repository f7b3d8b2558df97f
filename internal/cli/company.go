package cli

import (
	"fmt"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/neighbour"
	"github.com/hopbench/hopbench/internal/store"
)

// company notes who else measures on this machine while a run does. That it
// cannot is a note as well, and never an error.
type company struct {
	head     *store.Head         // of the run
	presence *neighbour.Presence // nil where nobody can be found, and after leave
	show     *progress
	known    int // who had come when since was asked last
}

// joinCompany tells the other runs of this one, of an experiment of that name.
func joinCompany(head *store.Head, experiment string, show *progress) *company {
	c := &company{head: head, show: show}
	var err error
	if c.presence, err = neighbour.Join(neighbour.Run{Experiment: experiment, Started: head.Started}); err != nil {
		c.note(fmt.Sprintf("Whether other runs were under way on this machine at the same time is not known: %v.", err))
		return c
	}
	c.look()
	return c
}

// watchMachine notes what else this machine does while a run is measured. The caller leaves.
func watchMachine(head *store.Head, name string, show *progress) *company {
	others := joinCompany(head, name, show)
	if warning := loadWarning(); warning != "" && head.Note(warning) {
		show.Facts([]string{warning})
	}
	return others
}

// look notes who has come, and says whether anybody has.
func (c *company) look() (news bool) {
	if c.presence == nil {
		return false
	}
	for _, other := range c.presence.Others() {
		name := "that does not say which"
		if other.Experiment != "" {
			name = base.Shown(other.Experiment)
		}
		if !other.Started.IsZero() {
			name += ", begun " + other.Started.UTC().Format("2006-01-02 15:04:05 UTC")
		}
		news = c.note(fmt.Sprintf("Another run was under way on this machine at the same time (%s): each took CPU time from the other.", name)) || news
	}
	return news
}

// since is how many other runs have been under way since it was asked last: those that
// are, or else those that have come and gone.
func (c *company) since() int {
	if c.presence == nil {
		return 0
	}
	before := c.known
	c.known = len(c.presence.Others())
	return max(c.presence.Alive(), c.known-before)
}

// note keeps and tells a sentence that is new.
func (c *company) note(sentence string) bool {
	if !c.head.Note(sentence) {
		return false
	}
	c.show.Facts([]string{sentence})
	return true
}

// leave ends the run's presence and notes who came last. A second leave does
// nothing.
func (c *company) leave() {
	if c.presence == nil {
		return
	}
	_ = c.presence.Leave() // its socket may be left behind, which harms nobody
	c.look()
	c.presence = nil
}
