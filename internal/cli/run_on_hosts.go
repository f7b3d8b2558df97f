package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/reach"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/testbed/hosts"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
	"github.com/hopbench/hopbench/internal/testbed/switching"
)

// maxTestbedBytes bounds a testbed file.
const maxTestbedBytes = 1 << 20

// testbedFile is what is kept of the testbed file of a new run.
func testbedFile(file string) (*store.File, error) {
	text, err := readTestbed(file)
	if err != nil {
		return nil, err
	}
	name, err := filepath.Abs(file)
	return &store.File{Name: name, Text: string(text)}, err
}

func readTestbed(file string) ([]byte, error) {
	text, err := base.ReadBounded(file, maxTestbedBytes)
	if err != nil {
		return nil, base.Usage(fmt.Errorf("read the testbed: %w", base.Missing(file, err, "hopbench testbed show hosts prints one to start with")))
	}
	return text, nil
}

// findPaths finds what testbed the run is on, and where the paths are unless that is a lab.
func (r *session) findPaths() (err error) {
	r.on = testbedKindOf(result.TestbedLab)
	if file := r.head.TestbedFile; file != nil {
		if r.inventory, err = inventory.Load(file.Name, []byte(file.Text), r.e); err != nil {
			return err
		}
		r.on = testbedKindOf(r.inventory.Kind)
	}
	if r.flags.sink.to != "" && !r.on.samples {
		return errNoSamples
	}
	return joinAt(r.inventory, r.flags.nats)
}

// reachHosts makes the hosts of a run ready to measure.
func (r *session) reachHosts(ctx context.Context) (testbed.Testbed, error) {
	options, err := hostOptions(r.inventory, r.head.TestbedFile.Name)
	if err != nil {
		return nil, err
	}
	options.Before, options.Again = r.head.Testbed.Paths, r.again
	base.SpareProcessor() // this process may be the source
	return hosts.New(ctx, r.inventory, r.e, options)
}

// hostOptions are how the hosts of a testbed file are reached.
func hostOptions(inv *inventory.Inventory, file string) (hosts.Options, error) {
	token, err := base.ReadToken(inv.TokenFile)
	if err != nil {
		return hosts.Options{}, err
	}
	return hosts.Options{Token: token, Journal: switching.JournalOf(file), Dial: func(ctx context.Context, e inventory.Endpoint) (io.ReadWriteCloser, error) {
		return reach.Dial(ctx, e, token)
	}}, nil
}

// lookAtHosts looks at the hosts of a testbed file.
func lookAtHosts(ctx context.Context, c checked) ([]testbed.Finding, error) {
	options, err := hostOptions(c.inventory, c.file)
	if err != nil {
		return nil, err
	}
	options.Found = func(f testbed.Finding) { c.found(f) }
	e := c.e
	if e != nil {
		e = e.OnHosts()
	}
	return hosts.Check(ctx, c.inventory, e, options)
}

// planStages plans a run in two stages where switching its paths is slow.
func (r *session) planStages(bed testbed.Testbed) (err error) {
	slow, ok := bed.(testbed.SlowSwitcher)
	if !ok || slow.SwitchTime() <= experiment.SlowSwitch {
		return nil
	}
	r.head.TwoStage = true
	r.e, r.plan, err = runner.Prepare(r.head)
	return err
}
