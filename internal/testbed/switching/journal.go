package switching

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/hopbench/hopbench/internal/atomicfile"
	"github.com/hopbench/hopbench/internal/filelock"
	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/printable"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
)

// JournalOf is the journal of a testbed file: next to it, so that a later program finds
// what one that was killed has left.
func JournalOf(file string) string { return file + ".found" }

const journalFormat = "hopbench.found/2"

// journal is what is kept until the values found at the start are restored.
type journal struct {
	Format string            `json:"format"`
	Values map[string]string `json:"values"` // found, by switch
	// MayActUntil is until when a command of a switch may act that was not seen to.
	MayActUntil map[string]time.Time `json:"may_act_until,omitempty"`
}

// readJournal is what an earlier program found and did not restore, without values if there
// is none.
func readJournal(file string) (journal, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return journal{}, nil
	}
	var text []byte
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(f, maxOutput+1))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return journal{}, fmt.Errorf("read what was found before the last run: %w", err)
	}
	j, err := decodeJournal(text)
	if err != nil {
		return journal{}, fmt.Errorf("read what was found before the last run: %s: %w; see what the switches are at, and remove the file", file, err)
	}
	return j, nil
}

func decodeJournal(text []byte) (journal, error) {
	if len(text) > maxOutput {
		return journal{}, fmt.Errorf("it is longer than %d KiB", maxOutput>>10)
	}
	var j journal
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&j); err != nil {
		return journal{}, err
	}
	if j.Format != journalFormat || j.Values == nil {
		return journal{}, fmt.Errorf("it is not of format %s", journalFormat)
	}
	return j, nil
}

// writeJournal returns once the file is whole and on disk.
func writeJournal(file string, j journal) error {
	j.Format = journalFormat
	err := atomicfile.Write(file, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(j)
	})
	if err != nil {
		return fmt.Errorf("keep what the switches were at, to restore it: %w", err)
	}
	return nil
}

// keep writes down what is to be restored, and which commands may still act.
func (s *Switcher) keep() error {
	if len(s.found) == 0 {
		return nil
	}
	until := maps.Clone(s.unsettled)
	for name, t := range s.underWay {
		until[name] = latest(until[name], t)
	}
	return writeJournal(s.o.Journal, journal{Values: s.found, MayActUntil: until})
}

// leftBehind are the values that an earlier program found and did not restore. Its commands
// may still act.
func (s *Switcher) leftBehind() (map[string]string, error) {
	j, err := readJournal(s.o.Journal)
	if err != nil {
		return nil, err
	}
	maps.Copy(s.unsettled, j.MayActUntil)
	for name, value := range j.Values {
		i := slices.IndexFunc(s.o.Switches, func(w inventory.Switch) bool { return w.Name == name })
		switch {
		case i < 0:
			return nil, fmt.Errorf("an earlier run found switch %s at %s and did not restore it, and the testbed file has no such switch any more; restore it by hand, and remove %s", quoted(name), quoted(value), s.o.Journal)
		case s.o.Switches[i].Values[value] == nil && s.o.Switches[i].Restore == "":
			return nil, fmt.Errorf("an earlier run found switch %s at %s and did not restore it, and the testbed file has no such value any more (only %s); say with restore: what to leave behind, and run hopbench testbed restore", name, quoted(value), values(s.o.Switches[i]))
		}
	}
	return j.Values, nil
}

// begin reads what all switches are at, and keeps what is to be restored. What a program
// left behind that was killed is older, and stays.
func (s *Switcher) begin(ctx context.Context) error {
	state := map[string]string{}
	for _, w := range s.used() {
		limited, cancel := context.WithTimeout(ctx, w.Timeout)
		v, err := s.read(limited, need{w, ""})
		cancel()
		if err != nil {
			return fmt.Errorf("switch %s: what it is at cannot be read: %w; run the command by hand to see why", w.Name, err)
		}
		if _, known := w.Values[v]; !known && w.Restore == "" {
			return fmt.Errorf("switch %s: %s prints %s, which is none of its values (%s), so that it could not be restored; say with restore: what to leave behind", w.Name, shown(w.Read), quoted(v), values(w))
		}
		state[w.Name] = v
	}
	left, err := s.leftBehind()
	if err != nil {
		return err
	}
	found := maps.Clone(state)
	maps.Copy(found, left)
	s.found, s.state = found, state
	if err := s.keep(); err != nil {
		s.found = nil
		return err
	}
	return nil
}

// hold keeps other coordinators from the switches: they would measure one another's paths,
// and restore what another has just set.
func hold(journal string) (io.Closer, error) {
	lock, holder, err := filelock.Made(journal+".lock", hostinfo.Process())
	switch {
	case errors.Is(err, filelock.ErrHeld):
		return nil, fmt.Errorf("another hopbench uses the switches of this testbed (%s): wait until it is done, or end it", printable.Line(cmp.Or(holder, "it did not say which"), 200))
	case err != nil:
		return nil, fmt.Errorf("keep what the switches were at, and others from them: %w; is the disk full or the folder read-only?", err)
	}
	return lock, nil
}

// release lets others switch.
func (s *Switcher) release() error {
	if s.lock == nil {
		return nil
	}
	err := s.lock.Close()
	s.lock = nil
	if err != nil {
		return fmt.Errorf("let others use the switches again: %w", err)
	}
	return nil
}
