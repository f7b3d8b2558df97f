package supervisor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/idps"
	"github.com/hopbench/hopbench/internal/lab/message"
	"github.com/hopbench/hopbench/internal/linkem"
)

// rulesDescriptor is where the process of a link emulator finds the text of its rules,
// when they are not the built-in ones: behind control socket and ports.
const rulesDescriptor = controlDescriptor + 3

// inspector makes what the job asks for, nil when it does not.
func (j linkJob) inspector() (*idps.Inspector, error) {
	if j.IDPS == nil {
		return nil, nil
	}
	set := idps.Builtin()
	if j.IDPS.Rules != "" {
		f := os.NewFile(rulesDescriptor, j.IDPS.Rules)
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, idps.MaxFileBytes+1))
		if err != nil {
			return nil, fmt.Errorf("read the rules: %w", err)
		}
		if set, err = idps.Parse(j.IDPS.Rules, text); err != nil {
			return nil, err
		}
	}
	return idps.New(set, j.IDPS.Mode)
}

// inspect has the link emulator of the job inspect, if it is to. The inspector's
// garbage is collected next to the threads that carry frames, and so seldom.
func (j linkJob) inspect(c *linkem.Emulator) (*idps.Inspector, error) {
	i, err := j.inspector()
	if i == nil || err != nil {
		return nil, err
	}
	c.Inspect(i)
	debug.SetGCPercent(400)
	return i, nil
}

// rulesFile is a file with a text in memory, at its beginning.
func rulesFile(text string) (*os.File, error) {
	fd, err := unix.MemfdCreate("rules", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory for the rules: %w", err)
	}
	f := os.NewFile(uintptr(fd), "rules")
	_, err = f.WriteString(text)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("hand over the rules: %w", err), f.Close())
	}
	return f, nil
}

var errNotInspecting = errors.New("this link emulator does not inspect")

func (s *supervisor) setMode(m message.Message) (any, error) {
	r, err := message.Body[message.ModeRequest](m)
	if err != nil {
		return nil, err
	}
	_, err = s.askInspectors(r.Node, m)
	return nil, err
}

// alerts are the latest of all links of an idps.
func (s *supervisor) alerts(m message.Message) (any, error) {
	node, err := message.Body[string](m)
	if err != nil {
		return nil, err
	}
	answers, err := s.askInspectors(node, m)
	if err != nil {
		return nil, err
	}
	var all []idps.AlertRecord
	for _, answer := range answers {
		some, err := message.Body[[]idps.AlertRecord](answer)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	slices.SortStableFunc(all, func(a, b idps.AlertRecord) int { return a.Time.Compare(b.Time) })
	return all[max(0, len(all)-idps.MaxAlerts):], nil
}

// askInspectors hands a request on to the idps that is a node: to the link that leaves it and
// to the bypasses that do.
func (s *supervisor) askInspectors(node string, m message.Message) (answers []message.Message, err error) {
	s.counting.Lock()
	defer s.counting.Unlock()
	for i, l := range s.build.Topology.Links {
		if l.IDPS == nil || l.A.Node != node {
			continue
		}
		s.mu.Lock()
		process := s.links[i]
		s.mu.Unlock()
		if process == nil {
			return nil, errors.New("the lab is not up yet")
		}
		answer, err := process.ask(m)
		if err != nil {
			return nil, fmt.Errorf("idps %s: %w", node, err)
		}
		answers = append(answers, answer)
	}
	if len(answers) == 0 {
		return nil, fmt.Errorf("idps %s: the lab has no such idps", node)
	}
	return answers, nil
}
