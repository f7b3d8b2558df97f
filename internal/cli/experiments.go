package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/experiments"
	"github.com/hopbench/hopbench/internal/analysis"
	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/spelling"
	"github.com/hopbench/hopbench/internal/words"
)

func experimentsCommand(s base.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "experiments",
		Short: "List the bundled experiments, or show one as a starting point",
		Args:  base.Exactly(),
		RunE:  func(*cobra.Command, []string) error { return listExperiments(s) },
	}
	c.AddCommand(&cobra.Command{
		Use:   "list",
		Short: "List the bundled experiments, as without a command",
		Args:  base.Exactly(),
		RunE:  c.RunE,
	}, &cobra.Command{
		Use:   "show NAME",
		Short: "Print a bundled experiment file",
		Example: `  hopbench experiments show routing-appliance > my.yaml
  hopbench run ./my.yaml`,
		Args:              base.Exactly("NAME"),
		ValidArgsFunction: base.First(completeExperiments),
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := experiments.Read(args[0])
			if err != nil {
				return base.Usage(unknownExperiment(args[0]))
			}
			_, err = fmt.Fprintf(s.Out, "# yaml-language-server: $schema=experiment.schema.json\n%s", text)
			return err
		},
	}, &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of experiment files, for editors",
		Example: `  hopbench experiments schema > experiment.schema.json
  and on top of a file, as show prints it: # yaml-language-server: $schema=experiment.schema.json`,
		Args: base.Exactly(),
		RunE: func(*cobra.Command, []string) error {
			_, err := s.Out.Write(experiment.Schema())
			return err
		},
	}, &cobra.Command{
		Use:   "check FILE",
		Short: "Report everything that is wrong with an experiment file",
		Args:  base.Exactly("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			e, file, err := loadExperiment(args[0])
			if err != nil {
				return err
			}
			rules, err := lab.RuleFiles(e)
			if err != nil {
				return err
			}
			plan := e.Plan(1)
			fmt.Fprintf(s.Out, "%s: %s, %s, %s: %s, about %s\n", file,
				quantity.Count(len(e.Paths), "path"), quantity.Count(len(e.Tests), "test"), quantity.Count(e.Blocks, "block"), quantity.Count(len(plan.Trials), "trial"), words.About(plan.ExpectedDuration(0)))
			if comparisons := runner.Comparisons(e); comparisons > 0 {
				fmt.Fprintln(s.Out, words.BlocksToClaim(e.Blocks, analysis.FewestBlocks(), comparisons))
			}
			if line := switchesLine(e, plan); line != "" {
				fmt.Fprintln(s.Out, line)
			}
			for _, set := range rules.Sets {
				fmt.Fprintln(s.Out, set)
			}
			return nil
		},
	}, publishedCommand(s))
	return c
}

// switchesLine says how often a run goes from one path to another, where paths have to
// be switched; empty where two stages change nothing.
func switchesLine(e *experiment.Experiment, plan experiment.Plan) string {
	stages, err := e.With(experiment.Overrides{TwoStage: true})
	if err != nil {
		return ""
	}
	fewer := stages.Plan(plan.Seed).Switches()
	if fewer >= plan.Switches() {
		return ""
	}
	return words.ChangesOfPath(plan.Switches(), fewer, experiment.SlowSwitch)
}

func listExperiments(s base.Streams) error {
	table := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	for _, name := range experiments.Names() {
		text, err := experiments.Read(name)
		if err != nil {
			return err
		}
		e, err := experiment.Load(name+".yaml", text)
		if err != nil {
			return err
		}
		plan := e.Plan(1)
		fmt.Fprintf(table, "%s\t%s\t%s × %s × %s\tabout %s\n",
			name, e.Title, quantity.Count(len(e.Paths), "path"), quantity.Count(len(e.Tests), "test"), quantity.Count(e.Blocks, "block"), words.About(plan.ExpectedDuration(0)))
	}
	return table.Flush()
}

func completeExperiments(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return experiments.Names(), cobra.ShellCompDirectiveDefault
}

// maxExperimentBytes bounds the file of an experiment, which is kept with every run of it.
const maxExperimentBytes = 4 << 20

// readExperiment finds an experiment by the name of a bundled one or by the
// path of a file.
func readExperiment(arg string) (file string, text []byte, err error) {
	looksLikeFile := strings.ContainsAny(arg, `/\.`)
	if !looksLikeFile {
		if text, err := experiments.Read(arg); err == nil {
			return arg + ".yaml", text, nil
		}
	}
	text, err = base.ReadBounded(arg, maxExperimentBytes)
	switch {
	case err == nil:
		return arg, text, nil
	case errors.Is(err, fs.ErrNotExist) && !looksLikeFile:
		return "", nil, base.Usage(unknownExperiment(arg))
	default:
		return "", nil, base.Usage(fmt.Errorf("read the experiment: %w", base.Missing(arg, err, "")))
	}
}

// loadExperiment reads an experiment that is not run now, and says in which file it is.
func loadExperiment(arg string) (*experiment.Experiment, string, error) {
	file, text, err := readExperiment(arg)
	if err != nil {
		return nil, "", err
	}
	e, err := experiment.Load(file, text)
	return e, file, err
}

func unknownExperiment(name string) error {
	if file := name + ".yaml"; !strings.ContainsAny(name, `/\`) {
		if _, err := os.Stat(file); err == nil {
			return fmt.Errorf("there is no experiment %q; did you mean the file %s?", name, file)
		}
	}
	if near := spelling.Nearest(name, experiments.Names()); near != "" {
		return fmt.Errorf("there is no experiment %q; did you mean %q?", name, near)
	}
	return fmt.Errorf("there is no experiment %q; the bundled ones are %s, and a file of your own is given by its path",
		name, strings.Join(experiments.Names(), ", "))
}
