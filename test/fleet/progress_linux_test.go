package fleet

import (
	"bufio"
	"encoding/json"
	"os"

	"github.com/hopbench/hopbench/internal/event"
)

// life is that of a testbed, from when it is built until it broke.
type life struct{ session, faults int }

// steps reads what a session writes of its steps, as far as they are there.
type steps struct {
	file       string
	read       *os.File
	lines      *bufio.Reader
	part       []byte // of a line that is being written
	under      bool   // a trial goes on
	done, left int
	life       life
}

func (s *steps) close() {
	if s.read != nil {
		s.read.Close()
	}
}

// progress says whether a trial goes on, how many are left of the run, and of which testbed.
func (r *killed) progress() (under bool, left int, while life) {
	s := &r.steps
	if s.read == nil {
		f, err := os.Open(s.file)
		if err != nil {
			return false, 0, s.life // not there yet
		}
		s.read, s.lines = f, bufio.NewReader(f)
	}
	for {
		more, err := s.lines.ReadBytes('\n')
		s.part = append(s.part, more...)
		if err != nil {
			return s.under, s.left, s.life
		}
		var e event.Event
		if err := json.Unmarshal(s.part, &e); err != nil {
			r.t.Fatalf("%q: %v", s.part, err)
		}
		s.part = s.part[:0]
		s.done, s.left = e.Done, e.Planned-e.Done
		switch e.Code {
		case event.TrialStarted:
			s.under = true
		case event.TrialEnded:
			s.under = false
		case event.Fault:
			s.under = false
			s.life.faults++
		}
	}
}
