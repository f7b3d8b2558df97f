package switching

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/hopbench/hopbench/internal/testbed/inventory"
)

// JournalOf is the journal of a testbed file: beside it, so that a later program finds
// what one that was killed has left.
func JournalOf(file string) string { return file + ".found" }

const journalFormat = "hopbench.found/1"

// journal is what is kept until the values found at the start are restored.
type journal struct {
	Format string            `json:"format"`
	Values map[string]string `json:"values"` // found, by switch
}

// readJournal is what an earlier program found and did not restore, nil if there is none.
func readJournal(file string) (map[string]string, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var text []byte
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(f, maxOutput+1))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("read what was found before the last run: %w", err)
	}
	values, err := decodeJournal(text)
	if err != nil {
		return nil, fmt.Errorf("read what was found before the last run: %s: %w; see what the switches are at, and remove the file", file, err)
	}
	return values, nil
}

func decodeJournal(text []byte) (map[string]string, error) {
	if len(text) > maxOutput {
		return nil, fmt.Errorf("it is longer than %d KiB", maxOutput>>10)
	}
	var j journal
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&j); err != nil {
		return nil, err
	}
	if j.Format != journalFormat || j.Values == nil {
		return nil, fmt.Errorf("it is not of format %s", journalFormat)
	}
	return j.Values, nil
}

// writeJournal returns once the file is whole and on disk.
func writeJournal(file string, values map[string]string) (err error) {
	text, err := json.MarshalIndent(journal{journalFormat, values}, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*.new")
	if err == nil {
		_, err = f.Write(append(text, '\n'))
		err = errors.Join(err, f.Sync(), f.Close())
		if err == nil {
			err = os.Rename(f.Name(), file)
		}
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}
	if err != nil {
		return fmt.Errorf("keep what the switches were at, to restore it: %w; is the folder of the testbed file read-only or the disk full?", err)
	}
	return nil
}

// leftBehind are the values that an earlier program found and did not restore.
func (s *Switcher) leftBehind() (map[string]string, error) {
	found, err := readJournal(s.o.Journal)
	if err != nil {
		return nil, err
	}
	for name, value := range found {
		i := slices.IndexFunc(s.o.Switches, func(w inventory.Switch) bool { return w.Name == name })
		switch {
		case i < 0:
			return nil, fmt.Errorf("an earlier run found switch %s at %s and did not restore it, and the testbed file has no such switch any more; bring it back by hand, and remove %s", quoted(name), quoted(value), s.o.Journal)
		case s.o.Switches[i].Values[value] == nil && s.o.Switches[i].Restore == "":
			return nil, fmt.Errorf("an earlier run found switch %s at %s and did not restore it, and the testbed file has no such value any more (only %s); say with restore: what to leave behind, and run hopbench testbed restore", name, quoted(value), values(s.o.Switches[i]))
		}
	}
	return found, nil
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
	if len(found) > 0 {
		if err := writeJournal(s.o.Journal, found); err != nil {
			return err
		}
	}
	s.found, s.state = found, state
	return nil
}
