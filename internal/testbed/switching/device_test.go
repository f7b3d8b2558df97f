package switching_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/testbed/inventory"
	"github.com/hopbench/hopbench/internal/testbed/switching"
	"github.com/hopbench/hopbench/internal/testutil"
)

// device is what the commands of a test switch. It knows what is true of its paths,
// whatever it says.
type device struct {
	mu sync.Mutex
	// is has the values in force, says those that the read command prints.
	is, says map[string]string
	// on, where it is not nil, is asked what becomes of a command, read says what a
	// read command does.
	on   func(d *device, name, value string) reaction
	read func(d *device) error
	// wrong are paths whose trials go on while another is in force.
	during map[string]bool
	wrong  map[string]bool
	paths  []inventory.Path
	timers []*time.Timer
}

// reaction is what a device does with a command.
type reaction struct {
	err      error
	hangs    bool
	ignored  bool          // nothing is done
	after    time.Duration // it is done
	pretends bool          // the read command prints the value at once, whatever is done
	instead  string        // another value is set
}

func newDevice(paths []inventory.Path, found map[string]string) *device {
	return &device{is: maps.Clone(found), says: maps.Clone(found), during: map[string]bool{}, wrong: map[string]bool{}, paths: paths}
}

// put sets a value in force, and finds out for whom that is wrong.
func (d *device) put(name, value string, says bool) {
	d.is[name] = value
	if says {
		d.says[name] = value
	}
	d.look()
}

func (d *device) look() {
	for _, p := range d.paths {
		if d.during[p.Name] {
			for name, value := range p.Set {
				if d.is[name] != value {
					d.wrong[p.Name] = true
				}
			}
		}
	}
}

// trial is a trial on a path: it says whether another was in force meanwhile.
func (d *device) trial(ctx context.Context, path string, takes time.Duration, meanwhile func()) (wrong bool, err error) {
	d.mu.Lock()
	d.during[path] = true
	delete(d.wrong, path)
	d.look()
	d.mu.Unlock()
	if meanwhile != nil {
		meanwhile()
	}
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		err = ctx.Err()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.during[path] = false
	return d.wrong[path], err
}

// later does something, unless the device is stopped before.
func (d *device) later(after time.Duration, do func()) {
	d.timers = append(d.timers, time.AfterFunc(after, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		do()
	}))
}

func (d *device) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range d.timers {
		t.Stop()
	}
}

// run is the device's command line: set SWITCH VALUE, read SWITCH, verify SWITCH VALUE.
func (d *device) run(ctx context.Context, c switching.Command) (string, error) {
	select {
	case <-time.After(5 * time.Millisecond):
	case <-ctx.Done():
		return "", ctx.Err()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	name := c.Argv[1]
	switch c.Argv[0] {
	case "read":
		if d.read != nil {
			if err := d.read(d); err != nil {
				return "", err
			}
		}
		return d.says[name] + "\n", nil
	case "verify":
		if d.is[name] != c.Argv[2] {
			return "", errors.New("exit status 1")
		}
		return "", nil
	}
	value := c.Argv[2]
	var r reaction
	if d.on != nil {
		r = d.on(d, name, value)
	}
	if r.instead != "" {
		value = r.instead
	}
	if r.pretends {
		d.says[name] = c.Argv[2]
	}
	switch {
	case r.ignored:
	case r.after > 0:
		d.later(r.after, func() { d.put(name, value, !r.pretends) })
	default:
		d.put(name, value, !r.pretends)
	}
	if r.hangs {
		d.mu.Unlock()
		<-ctx.Done()
		d.mu.Lock()
		return "", ctx.Err()
	}
	return "", r.err
}

// trace shows a router for each value in force, and the path's end.
func (d *device) trace(ctx context.Context, path string) (string, error) {
	select {
	case <-time.After(30 * time.Millisecond):
	case <-ctx.Done():
		return "", ctx.Err()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	shows := ""
	for _, name := range slices.Sorted(maps.Keys(d.is)) {
		shows += name + "-" + d.is[name] + " "
	}
	i := slices.IndexFunc(d.paths, func(p inventory.Path) bool { return p.Name == path })
	return shows + d.paths[i].To.Addr().String(), nil
}

// canary is passed where the first letter of the value in force says so.
func (d *device) canary(_ context.Context, _ string, s inventory.Switch) (inventory.CanaryAnswer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return s.Canary[d.is[s.Name]], nil
}

var answers = []inventory.CanaryAnswer{inventory.CanaryPassed, inventory.CanaryReset, inventory.CanarySilent}

// switchOf is a switch of the device with so many values v0, v1, ….
func switchOf(name string, values int, proof inventory.Proof) inventory.Switch {
	s := inventory.Switch{
		Name: name, Values: map[string][]string{}, Read: []string{"read", name}, Verify: []string{"verify", name},
		Proof: proof, Canary: map[string]inventory.CanaryAnswer{}, Settle: 3 * time.Second, Timeout: time.Minute,
	}
	for i := range values {
		v := fmt.Sprintf("v%d", i)
		s.Values[v] = []string{"set", name, v}
		s.Canary[v] = answers[i%len(answers)]
	}
	return s
}

func pathOf(name, to string, set map[string]string) inventory.Path {
	return inventory.Path{Name: name, To: netip.MustParseAddrPort(to + ":0"), Set: set, DSCP: -1}
}

// options are those of a Switcher of the device.
func (d *device) options(journal string, switches ...inventory.Switch) switching.Options {
	return switching.Options{Switches: switches, Paths: d.paths, Journal: journal, Run: d.run, Trace: d.trace, Canary: d.canary}
}

// newSwitcher makes a Switcher that nobody else keeps from the switches.
func newSwitcher(t *testing.T, o switching.Options) *switching.Switcher {
	t.Helper()
	s, err := switching.New(o)
	testutil.OK(t, err)
	return s
}

// drawn is one of a list.
func drawn[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }
