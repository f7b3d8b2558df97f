package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/cli/live"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/strict"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
	"github.com/hopbench/hopbench/internal/words"
)

func testbedCommand(s base.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "testbed",
		Short: "Describe where the paths of an experiment are on your own hosts",
		Long: `A testbed file defines where the paths of an experiment are on real hosts: how to
reach their ends, the addresses of each path, and the commands that switch a path.
The experiment defines what to compare; it runs unchanged in a lab and on hosts.`,
		Example: `  hopbench testbed show hosts > office.yaml
  hopbench testbed check office.yaml --experiment my.yaml`,
	}
	c.AddCommand(testbedShowCommand(s), testbedSchemaCommand(s), testbedCheckCommand(s), testbedJoinCommand(s), testbedRestoreCommand(s))
	return c
}

func testbedShowCommand(s base.Streams) *cobra.Command {
	return &cobra.Command{
		Use:               "show " + strings.Join(inventory.Kinds(), "|"),
		Short:             "Print a testbed file to start with",
		Args:              base.Exactly("KIND"),
		ValidArgsFunction: base.OneOf(inventory.Kinds()...),
		RunE: func(_ *cobra.Command, args []string) error {
			start := testbedKindOf(args[0]).start
			if start == nil {
				return base.Usage(fmt.Errorf("there is no kind of testbed %q; write %s", args[0], kind.Either(inventory.Kinds())))
			}
			_, err := io.WriteString(s.Out, start())
			return err
		},
	}
}

func testbedSchemaCommand(s base.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of testbed files, for editors",
		Example: `  hopbench testbed schema > testbed.schema.json
  and on top of a file: # yaml-language-server: $schema=testbed.schema.json`,
		Args: base.Exactly(),
		RunE: func(*cobra.Command, []string) error {
			_, err := s.Out.Write(inventory.Schema())
			return err
		},
	}
}

func testbedCheckCommand(s base.Streams) *cobra.Command {
	var name string
	var asJSON, offline bool
	var watched live.Flags
	c := &cobra.Command{
		Use:   "check FILE",
		Short: "Report everything that is wrong with a testbed file, and how long a run on it takes",
		Example: `  hopbench testbed check office.yaml
  hopbench testbed check office.yaml --experiment my.yaml`,
		Args:              base.Exactly("FILE"),
		ValidArgsFunction: base.First(completeYAML),
		RunE: func(c *cobra.Command, args []string) error {
			base.OutliveReader() // it switches paths
			return watched.Follow(c.Context(), &s, asJSON, "check of "+args[0], func(tell live.Steps) (err error) {
				var e *experiment.Experiment
				if name != "" {
					if e, _, err = loadExperiment(name); err != nil {
						return err
					}
				}
				in, err := loadTestbed(args[0], e)
				var mistakes strict.Errors
				switch {
				case asJSON && errors.As(err, &mistakes):
					return errors.Join(base.WriteJSON(s.Out, testbedCheck{File: args[0], Mistakes: mistakes}), err)
				case err != nil:
					return err
				}
				check := checkTestbed(args[0], in, e)
				if look := testbedKindOf(in.Kind).look; look != nil && !offline {
					if check.Findings, err = look(c.Context(), checked{args[0], in, e, tell}); err != nil {
						return err
					}
				}
				if asJSON {
					err = base.WriteJSON(s.Out, check)
				} else {
					err = check.print(s.Out)
				}
				return errors.Join(err, check.wrong())
			})
		},
	}
	c.Flags().StringVarP(&name, "experiment", "e", "", "the experiment to run there: a bundled one, or a file")
	c.Flags().BoolVar(&offline, "offline", false, "check only the file, and contact no host")
	c.Flags().BoolVarP(&asJSON, "json", "J", false, "print one JSON document")
	watched.DefineEvents(c.Flags())
	base.Complete(c, "experiment", completeExperiments)
	return c
}

// completeYAML completes the name of a YAML file.
func completeYAML(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
}

// loadTestbed reads a testbed file for an experiment, nil for none.
func loadTestbed(file string, e *experiment.Experiment) (*inventory.Inventory, error) {
	text, err := readTestbed(file)
	if err != nil {
		return nil, err
	}
	return inventory.Load(file, text, e)
}

// testbedCheck is what a check says of a testbed file.
type testbedCheck struct {
	File      string            `json:"file"`
	Mistakes  strict.Errors     `json:"mistakes,omitempty"`
	Name      string            `json:"name,omitempty"`
	Title     string            `json:"title,omitempty"`
	Endpoints []testbedEndpoint `json:"endpoints,omitempty"`
	Paths     []testbedPath     `json:"paths,omitempty"`
	Switches  []testbedSwitch   `json:"switches,omitempty"`
	// Alike are pairs of paths that are the same.
	Alike [][2]string `json:"alike,omitempty"`
	Run   *testbedRun `json:"run,omitempty"`
	// Findings are what was found of the hosts.
	Findings []testbed.Finding `json:"findings,omitempty"`
}

// wrong says that nothing can be measured there, nil where something can.
func (c testbedCheck) wrong() error {
	wrong := 0
	for _, f := range c.Findings {
		if f.Severity == testbed.Wrong {
			wrong++
		}
	}
	if wrong == 0 {
		return nil
	}
	return fmt.Errorf("%s to put right before anything can be measured", quantity.Count(wrong, "thing"))
}

type testbedEndpoint struct {
	Name  string `json:"name"`
	Reach string `json:"reach"`
}

type testbedPath struct {
	Name   string            `json:"name"`
	To     string            `json:"to"`
	Listen string            `json:"listen,omitempty"`
	From   string            `json:"from,omitempty"`
	Set    map[string]string `json:"set,omitempty"`
}

type testbedSwitch struct {
	Name          string   `json:"name"`
	Values        []string `json:"values"`
	Proof         string   `json:"proof"`
	SettleSeconds float64  `json:"settle_seconds"`
}

// testbedRun is what a run of an experiment takes.
type testbedRun struct {
	Experiment      string  `json:"experiment"`
	TrialsCount     int     `json:"trials_count"`
	CommandsCount   int     `json:"commands_count"`   // of switches
	SettleSeconds   float64 `json:"settle_seconds"`   // in all
	ExpectedSeconds float64 `json:"expected_seconds"` // trials and settling, without the commands
}

func checkTestbed(file string, in *inventory.Inventory, e *experiment.Experiment) testbedCheck {
	c := testbedCheck{File: file, Name: in.Name, Title: in.Title, Alike: in.Alike()}
	for _, x := range in.Endpoints {
		c.Endpoints = append(c.Endpoints, testbedEndpoint{x.Name, x.Reach.String()})
	}
	for _, p := range in.Paths {
		path := testbedPath{Name: p.Name, To: withPort(p.To), Set: p.Set}
		if p.Network.IsValid() {
			path.To = p.Network.String()
		}
		if p.Listen.IsValid() {
			path.Listen = withPort(p.Listen)
		}
		if p.From.IsValid() {
			path.From = p.From.String()
		}
		c.Paths = append(c.Paths, path)
	}
	for _, w := range in.Switches {
		c.Switches = append(c.Switches, testbedSwitch{w.Name, slices.Sorted(maps.Keys(w.Values)), string(w.Proof), w.Settle.Seconds()})
	}
	if e != nil {
		plan, commands, settle := planOn(in, e)
		c.Run = &testbedRun{e.Name, len(plan.Trials), commands, settle.Seconds(), (plan.ExpectedDuration(0) + settle).Seconds()}
	}
	return c
}

// planOn is the plan of a run of e, the commands of switches that it takes, and how long
// they take to settle: in two stages where that is slow.
func planOn(in *inventory.Inventory, e *experiment.Experiment) (plan experiment.Plan, commands int, settle time.Duration) {
	plan = e.Plan(1)
	changes := max(1, plan.Switches())
	commands, settle = in.Switching(pathsOf(plan))
	if stages, err := e.With(experiment.Overrides{TwoStage: true}); err == nil && settle/time.Duration(changes) > experiment.SlowSwitch {
		plan = stages.Plan(1)
		commands, settle = in.Switching(pathsOf(plan))
	}
	return plan, commands, settle
}

// pathsOf are the paths of a plan's trials, one after the other.
func pathsOf(plan experiment.Plan) (order []string) {
	for _, t := range plan.Trials {
		order = append(order, t.Path)
	}
	return order
}

// withPort is an address with its port, if it has one.
func withPort(a netip.AddrPort) string {
	if a.Port() == 0 {
		return a.Addr().String()
	}
	return a.String()
}

func (c testbedCheck) print(w io.Writer) error {
	fmt.Fprintf(w, "%s: testbed %s, %s, %s\n", c.File, c.Name, quantity.Count(len(c.Endpoints), "endpoint"), quantity.Count(len(c.Paths), "path"))
	if c.Title != "" {
		fmt.Fprintf(w, "%s\n", base.Shown(c.Title))
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, e := range c.Endpoints {
		fmt.Fprintf(table, "  endpoint\t%s\t%s\n", e.Name, e.Reach)
	}
	for _, p := range c.Paths {
		at := p.To
		if p.From != "" {
			at = p.From + " → " + at
		}
		if p.Listen != "" {
			at += " (" + p.Listen + ")"
		}
		for _, name := range slices.Sorted(maps.Keys(p.Set)) {
			at += fmt.Sprintf(", %s %s", name, p.Set[name])
		}
		fmt.Fprintf(table, "  path\t%s\t%s\n", p.Name, at)
	}
	for _, x := range c.Switches {
		proof := "proven by " + x.Proof
		if x.Proof == string(inventory.ProofNone) {
			proof = "not proven: one that does nothing would look like a hop that costs nothing"
		}
		fmt.Fprintf(table, "  switch\t%s\t%s; %s\n", x.Name, strings.Join(x.Values, ", "), proof)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, pair := range c.Alike {
		fmt.Fprintf(w, "Paths %s and %s have the same addresses and values: a difference between them is chance.\n", pair[0], pair[1])
	}
	if r := c.Run; r != nil {
		fmt.Fprintf(w, "%s: %s, about %s", r.Experiment, quantity.Count(r.TrialsCount, "trial"), words.About(time.Duration(r.ExpectedSeconds*float64(time.Second))))
		if r.CommandsCount > 0 {
			fmt.Fprintf(w, " and what %s of switches need", quantity.Count(r.CommandsCount, "command"))
		}
		fmt.Fprintln(w)
	}
	for _, f := range c.Findings {
		fmt.Fprintf(w, "%s%s\n", findingMarks[f.Severity], typeset.Line(f.String()))
	}
	return nil
}

// findingMarks begin a line with a finding.
var findingMarks = map[testbed.Severity]string{testbed.Note: "✓ ", testbed.Warning: "! ", testbed.Wrong: "✗ "}
