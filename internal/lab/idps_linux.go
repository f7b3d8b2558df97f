package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/cable"
	"github.com/hopbench/hopbench/internal/idps"
)

// rulesDescriptor is where the process of a cable finds the text of its rules,
// when they are not the built-in ones: behind control socket and ports.
const rulesDescriptor = controlDescriptor + 3

// inspector makes what the job asks for, nil when it does not.
func (j *cableJob) inspector() (*idps.Inspector, error) {
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

// inspect has the cable of the job inspect, if it is to. The inspector's
// garbage is collected beside the threads that carry frames.
func (j *cableJob) inspect(c *cable.Cable) (*idps.Inspector, error) {
	i, err := j.inspector()
	if i == nil || err != nil {
		return nil, err
	}
	c.Inspect(i)
	return i, cable.TuneProcess(1)
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

// answerInspector does what a message asks of a cable's inspector.
func answerInspector(m message, i *idps.Inspector) (answer message) {
	switch {
	case i == nil:
		answer.Error = "this cable does not inspect"
	case m.Op == opAlerts:
		answer.Alerts = i.Alerts()
	default:
		if err := i.SetMode(m.Mode); err != nil {
			answer.Error = err.Error()
		}
	}
	return answer
}

// passToInspector hands a request on to the idps of its node and answers it.
func (s *supervisor) passToInspector(m message) {
	answer, err := s.askInspector(m)
	if err != nil {
		answer.Error = fmt.Sprintf("idps %s: %v", m.Node, err)
	}
	answer.ID = m.ID
	s.reply(answer)
}

func (s *supervisor) askInspector(m message) (message, error) {
	s.counting.Lock()
	defer s.counting.Unlock()
	for i, l := range s.build.Topology.Links {
		if l.IDPS == nil || l.A.Node != m.Node {
			continue
		}
		s.mu.Lock()
		w := s.cables[i]
		s.mu.Unlock()
		if w == nil {
			return message{}, errors.New("the lab is not up yet")
		}
		return w.askCable(m)
	}
	return message{}, errors.New("the lab has no such idps")
}

// SetMode changes what the idps that is a node does with flows that match a
// rule. When it returns, the next frame is treated so.
func (l *Lab) SetMode(ctx context.Context, node string, mode idps.Mode) error {
	_, err := l.request(ctx, message{Op: opMode, Node: node, Mode: mode}, nil, nil)
	if err != nil {
		return fmt.Errorf("set the mode %q: %w", mode, err)
	}
	return nil
}

// Alerts are the latest of the idps that is a node, the oldest first.
func (l *Lab) Alerts(ctx context.Context, node string) ([]idps.AlertRecord, error) {
	answer, err := l.request(ctx, message{Op: opAlerts, Node: node}, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("read alerts: %w", err)
	}
	return answer.Alerts, nil
}
