// Command causes plants causes in labs, has hopbench name them, and prints how often it
// was right, abstained, or was wrong. With -from it judges trials that were kept.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hopbench/hopbench/bench/truth/planted"
	"github.com/hopbench/hopbench/internal/analysis"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

func main() {
	binary := flag.String("hopbench", "hopbench", "the binary")
	trials := flag.Int("trials", 5, "trials of each cause")
	only := flag.String("only", "", "names of causes, separated by commas")
	dir := flag.String("dir", "", "folder that keeps the runs")
	from := flag.Bool("from", false, "judge the runs in the folder, and run nothing")
	verbose := flag.Bool("v", false, "print each sentence")
	flag.Parse()
	if err := run(*binary, *trials, *only, *dir, *from, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "causes:", err)
		os.Exit(1)
	}
}

func run(binary string, trials int, only, dir string, from, verbose bool) error {
	if dir == "" {
		return errors.New("-dir is missing: name a folder for the runs")
	}
	var right, abstained, wrong int
	fmt.Printf("%-22s %5s %9s %5s  said\n", "planted", "right", "abstained", "wrong")
	for _, p := range planted.All() {
		if only != "" && !slices.Contains(strings.Split(only, ","), p.Name) {
			continue
		}
		folder := filepath.Join(dir, p.Name)
		if !from {
			if err := measure(binary, p, trials, folder); err != nil {
				return fmt.Errorf("plant %s: %w", p.Name, err)
			}
		}
		verdicts, said, err := judge(p, folder, verbose)
		if err != nil {
			return fmt.Errorf("judge %s: %w", p.Name, err)
		}
		fmt.Printf("%-22s %5d %9d %5d  %s\n", p.Name, verdicts[isRight], verdicts[isAbstained], verdicts[isWrong], said)
		right, abstained, wrong = right+verdicts[isRight], abstained+verdicts[isAbstained], wrong+verdicts[isWrong]
	}
	fmt.Printf("%-22s %5d %9d %5d\n", "all", right, abstained, wrong)
	return nil
}

func measure(binary string, p planted.Planted, trials int, folder string) error {
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	file := folder + ".yaml"
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(p.ExperimentYAML), 0o644); err != nil {
		return err
	}
	out, err := exec.Command(binary, "run", file, "--out", folder, "--quiet", "--blocks", strconv.Itoa(trials)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// What is said of a cell.
const (
	isRight = iota
	isAbstained
	isWrong
)

// judge names the cause of each trial by itself.
func judge(p planted.Planted, folder string, verbose bool) (verdicts [3]int, said string, err error) {
	text, err := os.ReadFile(filepath.Join(folder, "result.json"))
	if err != nil {
		return verdicts, "", err
	}
	var r result.Result
	if err := json.Unmarshal(text, &r); err != nil {
		return verdicts, "", err
	}
	e, err := experiment.Load(p.Name, []byte(p.ExperimentYAML))
	if err != nil {
		return verdicts, "", err
	}
	opts := analysis.DefaultOptions()
	opts.Lab = true
	opts.SourceEgressBitsPerSecond, opts.DestinationEgressBitsPerSecond = e.Endpoints[0].EgressBitsPerSecond, e.Endpoints[1].EgressBitsPerSecond
	counts := map[string]int{}
	for _, t := range r.Trials {
		if t.Path != p.Path || t.Test != p.Test {
			continue
		}
		a := attribution(t, &r, opts)
		verdict, name := verdictOn(a, p)
		verdicts[verdict]++
		counts[name]++
		if verbose {
			fmt.Printf("  %s %.4g Mbit/s passed %t: %s\n", t.ID, t.Metrics["goodput_bits_per_second"]/1e6, t.Gate.Passed, words.Attribution(a, measurement.Send))
		}
	}
	var names []string
	for name, n := range counts {
		names = append(names, fmt.Sprintf("%s %d", name, n))
	}
	slices.Sort(names)
	return verdicts, strings.Join(names, ", "), nil
}

func attribution(t measurement.Trial, r *result.Result, opts analysis.Options) result.Attribution {
	if !t.Gate.Passed {
		return result.Attribution{Shares: map[result.Cause]float64{}}
	}
	all := analysis.Analyse([]measurement.Trial{t}, r.Tests, r.Paths, opts).Attributions
	i := slices.IndexFunc(all, func(a result.Attribution) bool { return a.Path == t.Path && a.Test == t.Test })
	return all[i]
}

func verdictOn(a result.Attribution, p planted.Planted) (verdict int, name string) {
	var cause result.Cause
	share := 0.0
	for c, s := range a.Shares {
		if s > share {
			cause, share = c, s
		}
	}
	name = string(cause)
	if a.Hop != "" {
		name += "(" + a.Hop + ")"
	}
	switch {
	case share < 0.5:
		return isAbstained, "none"
	case cause == result.CauseUnknown:
		return isAbstained, name
	case slices.Contains(p.Want, cause) && a.Hop == p.Hop:
		return isRight, name
	}
	return isWrong, name
}
