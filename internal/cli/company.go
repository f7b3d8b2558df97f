package cli

import (
	"fmt"

	"github.com/hopbench/hopbench/internal/neighbour"
)

// company notes who else measures on this machine while a run does. That it
// cannot is a note as well, and never an error.
type company struct {
	run      *session
	presence *neighbour.Presence // nil where nobody can be found, and after leave
	show     *progress
	known    int // who had come when since was asked last
}

func joinCompany(r *session, show *progress) *company {
	c := &company{run: r, show: show}
	var err error
	if c.presence, err = neighbour.Join(neighbour.Run{Experiment: r.e.Name, Started: r.head.Started}); err != nil {
		c.note(fmt.Sprintf("Whether other runs were under way on this machine at the same time is not known: %v.", err))
		return c
	}
	c.look()
	return c
}

// look notes who has come, and says whether anybody has.
func (c *company) look() (news bool) {
	if c.presence == nil {
		return false
	}
	for _, other := range c.presence.Others() {
		name := "that does not say which"
		if other.Experiment != "" {
			name = shown(other.Experiment)
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
	if !c.run.note(sentence) {
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
