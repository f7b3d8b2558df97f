package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/store"
	testbedlab "github.com/hopbench/hopbench/internal/testbed/lab"
)

// network is a lab whose ends are reached as hosts, too.
type network struct {
	experiment          *experiment.Experiment
	lab                 *testbedlab.Lab
	source, destination string // nodes
	folder              string // of files that runs on hosts need
	binary              string // the program that runs on the hosts
	number              int    // of runs on hosts

	background sync.WaitGroup // what runs until close
	end        context.CancelFunc
	ctx        context.Context //nolint:containedctx // of what runs until close
	closers    []func() error
}

const (
	tokenFile = "token"
	// testsPort is where tests on hosts go: the lab's own agent has the usual port.
	testsPort = measurement.DefaultPort + 100
)

// newNetwork builds the paths of an experiment file, with an agent at the destination that
// is reached over TLS.
func newNetwork(ctx context.Context, file, text, binary string) (_ *network, err error) {
	e, err := experiment.Load(file, []byte(text))
	if err != nil {
		return nil, err
	}
	n := &network{experiment: e, binary: binary}
	n.ctx, n.end = context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
		}
	}()
	if n.folder, err = os.MkdirTemp("", "hopbench-bench-hosts-"); err != nil {
		return nil, err
	}
	if n.lab, err = testbedlab.New(ctx, e); err != nil {
		return nil, err
	}
	first := n.lab.Laid()[0]
	n.source, n.destination = first.SourceNode, first.DestinationNode
	if err := n.write(tokenFile, fmt.Sprintf("%x%x", rand.Uint64(), rand.Uint64())); err != nil {
		return nil, err
	}
	n.background.Go(func() {
		// It is ended with n.ctx; one that ends before is missed by await.
		_, _ = n.exec(n.ctx, n.destination, nil, n.binary, "agent", "-q", "--listen", n.reached(), "--token-file", tokenFile)
	})
	return n, nil
}

// reached is the address at which the destination is reached as a host.
func (n *network) reached() string { return n.lab.Laid()[0].Destination.String() }

func (n *network) write(name, text string) error {
	return os.WriteFile(filepath.Join(n.folder, name), []byte(text), 0o700)
}

// close ends all that was started, and the lab.
func (n *network) close() (err error) {
	n.end()
	for _, c := range slices.Backward(n.closers) {
		err = errors.Join(err, c())
	}
	n.background.Wait()
	if n.lab != nil {
		err = errors.Join(err, n.lab.Close())
	}
	return errors.Join(err, os.RemoveAll(n.folder))
}

// exec runs a program in a node. What lies in the network's folder goes before the programs
// of the system.
func (n *network) exec(ctx context.Context, node string, stderr *os.File, argv ...string) (int, error) {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PATH=") })
	env = append(env, "PATH="+n.folder+string(os.PathListSeparator)+os.Getenv("PATH"))
	return n.lab.Exec(ctx, node, lab.Command{Argv: argv, Env: env, Dir: n.folder, Stderr: stderr})
}

// startTime is how long the far end may take to start.
const startTime = 30 * time.Second

// await waits until the destination can be reached as a testbed file says.
func (n *network) await(ctx context.Context, testbed string) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		err := n.hopbench(ctx, "testbed", "check", testbed)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(startTime / 100):
		case <-ctx.Done():
			return fmt.Errorf("nothing can be reached as %s says, in %v: %w", testbed, startTime, err)
		}
	}
}

// hopbench runs it at the source. An error says what it said.
func (n *network) hopbench(ctx context.Context, args ...string) error {
	said, err := os.CreateTemp(n.folder, "said-")
	if err != nil {
		return err
	}
	defer os.Remove(said.Name())
	defer said.Close()
	status, err := n.exec(ctx, n.source, said, append([]string{n.binary}, args...)...)
	if err == nil && status != 0 {
		text, unread := os.ReadFile(said.Name())
		err = errors.Join(fmt.Errorf("hopbench %q: exit status %d: %s", args, status, text), unread)
	}
	return err
}

// onHosts runs an experiment on the hosts of a testbed file.
func (n *network) onHosts(ctx context.Context, experiment, testbed string, seed uint64, more ...string) (*result.Result, error) {
	n.number++
	folder := filepath.Join(n.folder, fmt.Sprint("run-", n.number))
	args := append([]string{"run", experiment, "--testbed", testbed, "--seed", fmt.Sprint(seed), "-q", "-o", folder}, more...)
	if err := n.hopbench(ctx, args...); err != nil {
		return nil, err
	}
	document, err := os.ReadFile(filepath.Join(folder, "result.json"))
	if err != nil {
		return nil, err
	}
	r, _, err := result.Decode(document)
	if err != nil {
		return nil, err
	}
	return r, os.RemoveAll(folder)
}

// inLab measures a run in the lab.
func (n *network) inLab(ctx context.Context, head store.Head) ([]measurement.Trial, error) {
	_, plan, err := runner.Prepare(head)
	if err != nil {
		return nil, err
	}
	keeper := &runner.Memory{}
	err = runner.Run(ctx, runner.Options{Planner: runner.Fixed(plan), Testbed: open{n.lab}, Keeper: keeper})
	return keeper.Kept, err
}

// open is a lab that stays open when a run ends.
type open struct{ *testbedlab.Lab }

// Close leaves the testbed to the other runs.
func (open) Close() error { return nil }

// keep keeps trials as a run does, if a folder is wanted, and says what they mean.
func keep(folder string, head store.Head, trials []measurement.Trial) (*result.Result, error) {
	r, err := runner.Result(head, trials)
	if err != nil || folder == "" {
		return r, err
	}
	s, err := store.Create(folder, head)
	if err != nil {
		return r, err
	}
	for _, t := range trials {
		err = errors.Join(err, s.Put(context.Background(), t))
	}
	return r, errors.Join(err, s.Close())
}
