package switching_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hopbench/hopbench/internal/testbed/inventory"
	"github.com/hopbench/hopbench/internal/testbed/switching"
	"github.com/hopbench/hopbench/internal/testutil"
)

// twoValues are two paths with the same ends, and a switch between them.
func twoValues(proof inventory.Proof) (*device, inventory.Switch) {
	paths := []inventory.Path{
		pathOf("plain", "192.0.2.1", map[string]string{"s0": "v0"}),
		pathOf("inspected", "192.0.2.1", map[string]string{"s0": "v1"}),
	}
	return newDevice(paths, map[string]string{"s0": "v0"}), switchOf("s0", 2, proof)
}

func contains(t *testing.T, err error, all ...string) {
	t.Helper()
	for _, text := range all {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q is not in the error %v", text, err)
		}
	}
}

// Paths go into force one after the other, are proven, and in the end all is as found.
func TestSwitch(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d, w := twoValues(inventory.ProofTrace)
		o := d.options(switching.JournalOf(dir+"/bed.yaml"), w)
		s := newSwitcher(t, o)
		visits, err := s.Rehearse(t.Context())
		testutil.OK(t, err)
		if len(visits) != 2 || visits[0].Changed || !visits[1].Changed || visits[1].Settle != w.Settle || visits[1].Evidence != "s0-v1 192.0.2.1" {
			t.Errorf("rehearsed %+v", visits)
		}
		if c := s.SwitchTime(); c < w.Settle || c > w.Settle+10*time.Second {
			t.Errorf("a switch costs %v", c)
		}
		text, err := os.ReadFile(dir + "/bed.yaml.found")
		testutil.OK(t, err)
		if !strings.Contains(string(text), `"s0": "v0"`) {
			t.Errorf("kept %s", text)
		}
		for i, path := range []string{"plain", "plain", "inspected", "plain"} {
			done, err := s.Switch(t.Context(), path)
			testutil.OK(t, err)
			if want := i != 1; done.Changed != want || (done.Settle > 0) != want || done.Proof != "trace" {
				t.Errorf("switch %d to %s did %+v", i, path, done)
			}
			if d.is["s0"] != done.Set["s0"] {
				t.Errorf("at %v after %+v", d.is, done)
			}
			testutil.OK(t, s.Confirm(t.Context(), path))
		}
		_, err = s.Switch(t.Context(), "inspected")
		testutil.OK(t, err)
		restored, err := s.Restore(t.Context())
		testutil.OK(t, err)
		if !maps.Equal(restored, map[string]string{"s0": "v0"}) || d.is["s0"] != "v0" {
			t.Errorf("restored %v, at %v", restored, d.is)
		}
		if _, err := os.Stat(o.Journal); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the journal: %v", err)
		}
	})
}

// A path that no switch sets is always in force, and nothing is run for it.
func TestPathsWithoutSwitches(t *testing.T) {
	d, _ := twoValues(inventory.ProofTrace)
	d.paths = []inventory.Path{pathOf("a", "192.0.2.1", nil), pathOf("b", "192.0.2.2", nil)}
	o := switching.Options{Paths: d.paths, Journal: t.TempDir() + "/none/found", Run: func(context.Context, switching.Command) (string, error) {
		t.Error("a command was run")
		return "", nil
	}}
	s := newSwitcher(t, o)
	done, err := s.Switch(t.Context(), "b")
	testutil.OK(t, err)
	testutil.OK(t, s.Confirm(t.Context(), "b"))
	restored, err := s.Restore(t.Context())
	testutil.OK(t, err)
	if done.Changed || done.Set != nil || len(restored) > 0 || s.SwitchTime() != 0 {
		t.Errorf("did %+v, restored %v", done, restored)
	}
}

// A switch that a trace cannot prove is refused before anything is measured, whether the
// paths have the same ends or their own.
func TestRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*device, *inventory.Switch, *switching.Options)
		says   []string
	}{
		"a trace sees no difference": {func(d *device, _ *inventory.Switch, o *switching.Options) {
			o.Trace = func(context.Context, string) (string, error) { return "10.0.0.1 192.0.2.1", nil }
		}, []string{"switch s0", "a switch that does nothing would look like a hop that costs nothing", "proof: canary"}},
		"other ends hide a dead switch": {func(d *device, w *inventory.Switch, _ *switching.Options) {
			d.paths[1] = pathOf("inspected", "192.0.2.2", map[string]string{"s0": "v1"})
			d.on = func(*device, string, string) reaction { return reaction{ignored: true, pretends: true} }
		}, []string{"switch s0", "does nothing would look like", "set s0 v1"}},
		"the only value looks like the one before": {func(d *device, _ *inventory.Switch, o *switching.Options) {
			o.Paths = o.Paths[1:]
			o.Trace = func(context.Context, string) (string, error) { return "10.0.0.1 192.0.2.1", nil }
		}, []string{"switch s0", "as it did at v0", "does nothing would look like"}},
		"two values of three look alike": {func(d *device, w *inventory.Switch, o *switching.Options) {
			*w = switchOf("s0", 3, inventory.ProofTrace)
			o.Paths = append(o.Paths, pathOf("alert", "192.0.2.1", map[string]string{"s0": "v2"}))
			o.Trace = func(context.Context, string) (string, error) {
				return map[string]string{"v0": "10.0.0.1", "v1": "10.0.0.2", "v2": "10.0.0.1"}[d.is["s0"]], nil
			}
		}, []string{"switch s0", "shows 10.0.0.1 at v0 and at v2 (path alert)", "proves neither"}},
		"two values of three look alike, and the ends do not": {func(d *device, w *inventory.Switch, o *switching.Options) {
			*w = switchOf("s0", 3, inventory.ProofTrace)
			o.Paths = append(o.Paths, pathOf("alert", "192.0.2.3", map[string]string{"s0": "v2"}))
			o.Trace = func(_ context.Context, path string) (string, error) {
				return map[string]string{"v0": "10.0.0.1 ", "v1": "10.0.0.2 ", "v2": "10.0.0.1 "}[d.is["s0"]] + path, nil
			}
		}, []string{"switch s0", "at v0 and at v2 (path alert)", "proves neither"}},
		"the second of two switches does nothing": {func(d *device, w *inventory.Switch, o *switching.Options) {
			o.Paths = []inventory.Path{pathOf("plain", "192.0.2.1", map[string]string{"s0": "v0", "s1": "v0"}), pathOf("inspected", "192.0.2.1", map[string]string{"s0": "v1", "s1": "v1"})}
			d.paths = o.Paths
			d.is["s1"], d.says["s1"] = "v0", "v0"
			d.on = func(_ *device, name, _ string) reaction { return reaction{ignored: name == "s1", pretends: true} }
			o.Switches = []inventory.Switch{*w, switchOf("s1", 2, inventory.ProofTrace)}
		}, []string{"switch s1", "as it did at v0", "does nothing would look like"}},
		"always one command behind": {func(d *device, w *inventory.Switch, _ *switching.Options) {
			*w = switchOf("s0", 3, inventory.ProofTrace)
			d.is["s0"], d.says["s0"] = "v2", "v2" // which is no path's
			before := ""
			d.on = func(_ *device, _, value string) reaction {
				was := before
				before = value
				return reaction{ignored: was == "", instead: was, pretends: true}
			}
		}, []string{"switch s0", "trace of path plain shows s0-v1", "showed s0-v2"}},
		"several ways": {func(d *device, _ *inventory.Switch, o *switching.Options) {
			k := 0
			o.Trace = func(context.Context, string) (string, error) { k++; return []string{"10.0.0.1", "10.0.0.2"}[k%2], nil }
		}, []string{"switch s0", "where packets take several ways"}},
		"it acts after its settle time": {func(d *device, w *inventory.Switch, o *switching.Options) {
			d.on = func(d *device, _, value string) reaction {
				d.later(time.Second, func() { d.is["s0"] = "v2" })
				return reaction{}
			}
		}, []string{"switch s0", "it acts late", "settle"}},
		"it is at no value": {func(d *device, _ *inventory.Switch, _ *switching.Options) { d.says["s0"] = "half\topen" },
			[]string{"switch s0", `"half open"`, "none of its values (v0, v1)", "restore:"}},
		"it cannot be read": {func(d *device, _ *inventory.Switch, _ *switching.Options) {
			d.read = func(*device) error { return errors.New("exit status 255") }
		}, []string{"switch s0", "read s0: exit status 255", "by hand"}},
		"a read that hangs": {func(_ *device, _ *inventory.Switch, o *switching.Options) {
			o.Run = func(ctx context.Context, _ switching.Command) (string, error) { <-ctx.Done(); return "", ctx.Err() }
		}, []string{"switch s0", "deadline exceeded"}},
		"no journal can be written": {func(_ *device, _ *inventory.Switch, o *switching.Options) { o.Journal += "/not/there" },
			[]string{"keep what the switches were at", "read-only"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				d, w := twoValues(inventory.ProofTrace)
				defer d.stop()
				o := switching.Options{Paths: d.paths, Journal: dir + "/found", Run: d.run, Trace: d.trace}
				test.change(d, &w, &o)
				if o.Switches == nil {
					o.Switches = []inventory.Switch{w}
				}
				s, err := switching.New(o)
				if err == nil {
					_, err = s.Switch(t.Context(), "inspected")
				}
				contains(t, err, test.says...)
			})
		})
	}
}

// What is not in force any more is brought into force again, and does not count before.
func TestConfirm(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d, w := twoValues(inventory.ProofCommand)
		s := newSwitcher(t, switching.Options{Switches: []inventory.Switch{w}, Paths: d.paths, Journal: dir + "/found", Run: d.run})
		contains(t, s.Confirm(t.Context(), "plain"), "path plain is not in force")
		for _, says := range []bool{true, false} {
			_, err := s.Switch(t.Context(), "inspected")
			testutil.OK(t, err)
			contains(t, s.Confirm(t.Context(), "plain"), "path plain is not in force")
			_, err = s.Switch(t.Context(), "inspected")
			testutil.OK(t, err)
			d.mu.Lock()
			d.put("s0", "v0", says)
			d.mu.Unlock()
			contains(t, s.Confirm(t.Context(), "inspected"), "switch s0", map[bool]string{true: `now reads "v0"`, false: "its proof (command) does not hold any more"}[says])
			done, err := s.Switch(t.Context(), "inspected")
			testutil.OK(t, err)
			if !done.Changed || d.is["s0"] != "v1" {
				t.Errorf("switched %+v, at %v", done, d.is)
			}
			testutil.OK(t, s.Confirm(t.Context(), "inspected"))
		}
		// The next trial of a path that was left between trials, too.
		d.mu.Lock()
		d.put("s0", "v0", true)
		d.mu.Unlock()
		done, err := s.Switch(t.Context(), "inspected")
		testutil.OK(t, err)
		if !done.Changed || d.is["s0"] != "v1" {
			t.Errorf("switched %+v, at %v", done, d.is)
		}
		_, err = s.Restore(t.Context())
		testutil.OK(t, err)
	})
}

// Two coordinators do not switch at a time, and neither restores what the other has set.
func TestOneCoordinatorAtATime(t *testing.T) {
	d, w := twoValues(inventory.ProofNone)
	o := switching.Options{Switches: []inventory.Switch{w}, Paths: d.paths, Journal: t.TempDir() + "/found", Run: d.run}
	first := newSwitcher(t, o)
	_, err := first.Switch(t.Context(), "inspected")
	testutil.OK(t, err)
	_, err = switching.New(o)
	contains(t, err, "another hopbench uses the switches", fmt.Sprintf("process %d on ", os.Getpid()))
	testutil.OK(t, first.Confirm(t.Context(), "inspected"))
	_, err = first.Restore(t.Context())
	testutil.OK(t, err)
	second := newSwitcher(t, o)
	_, err = second.Switch(t.Context(), "inspected")
	testutil.OK(t, err)
	if restored, err := second.Restore(t.Context()); err != nil || restored["s0"] != "v0" || d.is["s0"] != "v0" {
		t.Errorf("restored %v: %v, at %v", restored, err, d.is)
	}
}

// A later program restores what one that was killed has found, and no value that came
// in between; what cannot be restored is kept.
func TestRestoreLater(t *testing.T) {
	dir := t.TempDir()
	d, w := twoValues(inventory.ProofNone)
	o := switching.Options{Switches: []inventory.Switch{w}, Paths: d.paths, Journal: dir + "/found", Run: d.run}
	first := newSwitcher(t, o)
	_, err := first.Switch(t.Context(), "inspected")
	testutil.OK(t, err)
	first.Die()
	second := newSwitcher(t, o)
	_, err = second.Switch(t.Context(), "inspected")
	testutil.OK(t, err)
	testutil.OK(t, second.Confirm(t.Context(), "inspected"))
	second.Die()
	d.on = func(*device, string, string) reaction { return reaction{err: errors.New("exit status 1: busy")} }
	_, err = newSwitcher(t, o).Restore(t.Context())
	contains(t, err, "restore the switches", "switch s0: the command of v0 failed", "busy", "testbed restore")
	failures := 1 // then it is tried once more
	d.on = func(*device, string, string) reaction {
		failures--
		return reaction{err: map[bool]error{true: errors.New("exit status 1: busy")}[failures == 0]}
	}
	restored, err := newSwitcher(t, o).Restore(t.Context())
	testutil.OK(t, err)
	if restored["s0"] != "v0" || d.is["s0"] != "v0" {
		t.Errorf("restored %v, at %v", restored, d.is)
	}
	restored, err = newSwitcher(t, o).Restore(t.Context())
	if err != nil || len(restored) != 0 {
		t.Errorf("there is nothing to restore: %v, %v", restored, err)
	}
	w.Restore = "v1"
	o.Switches = []inventory.Switch{w}
	restored, err = newSwitcher(t, o).Restore(t.Context())
	if err != nil || restored["s0"] != "v1" || d.is["s0"] != "v1" {
		t.Errorf("what the file says: %v, %v, at %v", restored, err, d.is)
	}
	for text, says := range map[string]string{
		`{"format":"hopbench.found/2","values":{"s9":"v0"}}`:       `switch "s9"`,
		`{"format":"hopbench.found/9","values":{"s0":"v0"}}`:       "hopbench.found/2",
		`{"format":"hopbench.found/2","values":{"s0":"v0"},"x":1}`: "x",
		`{`: "EOF",
	} {
		testutil.OK(t, os.WriteFile(o.Journal, []byte(text), 0o600))
		_, err := newSwitcher(t, o).Restore(t.Context())
		contains(t, err, says, o.Journal)
	}
}

// What a program began that was killed may act after all that a later one began: that is
// waited for, too.
func TestRestoreWaitsForEarlierCommands(t *testing.T) {
	journal := t.TempDir() + "/found"
	synctest.Test(t, func(t *testing.T) {
		d, w := twoValues(inventory.ProofNone)
		until, err := time.Now().Add(2 * w.Timeout).MarshalJSON()
		testutil.OK(t, err)
		testutil.OK(t, os.WriteFile(journal, fmt.Appendf(nil, `{"format":"hopbench.found/2","values":{"s0":"v0"},"may_act_until":{"s0":%s}}`, until), 0o600))
		d.later(2*w.Timeout-time.Second, func() { d.put("s0", "v1", true) })
		d.on = func(*device, string, string) reaction {
			return reaction{err: errors.New("exit status 1"), ignored: true}
		}
		s := newSwitcher(t, d.options(journal, w))
		_, err = s.Switch(t.Context(), "inspected")
		contains(t, err, "the command of v1 failed")
		d.on = nil
		_, err = s.Restore(t.Context())
		testutil.OK(t, err)
		time.Sleep(time.Hour)
		if d.is["s0"] != "v0" {
			t.Errorf("left at %v", d.is)
		}
	})
}

// A router that answers only some traces, as Linux does by its net.ipv4.icmp_ratelimit,
// fails no switch; a switch that does nothing is still refused.
func TestRouterThatAnswersAtTimes(t *testing.T) {
	for _, dead := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d, w := twoValues(inventory.ProofTrace)
			if dead {
				d.on = func(*device, string, string) reaction { return reaction{ignored: true, pretends: true} }
			}
			o := d.options(t.TempDir()+"/found", w)
			traces := 0
			o.Trace = func(ctx context.Context, path string) (string, error) {
				shows, err := d.trace(ctx, path)
				if traces++; traces%3 != 0 {
					_, end, _ := strings.Cut(shows, " ")
					shows = "* " + end
				}
				return shows, err
			}
			s := newSwitcher(t, o)
			_, err := s.Rehearse(t.Context())
			if dead {
				contains(t, err, "switch s0", "does nothing would look like")
				return
			}
			testutil.OK(t, err)
			for _, path := range []string{"inspected", "plain", "inspected"} {
				if _, err := s.Switch(t.Context(), path); err != nil {
					t.Fatal(err)
				}
				if err := s.Confirm(t.Context(), path); err != nil {
					t.Errorf("confirm %s: %v", path, err)
				}
			}
		})
	}
}
