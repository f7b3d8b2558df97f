// Package program is what programs have in common that measure several things, one after
// the other.
package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
)

// Main runs a program until it is done or interrupted, and exits with status 1 after an
// error.
func Main(name string, run func(ctx context.Context, arguments []string) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// Part is one of the things that a program measures.
type Part[M any] struct {
	Name    string
	Measure M
}

// Parts adds the flag -part, which chooses some of all parts. The chosen ones, by default
// all, are known when flags are parsed.
func Parts[M any](flags *flag.FlagSet, all []Part[M]) *[]Part[M] {
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
	}
	chosen := slices.Clone(all)
	flags.Func("part", "parts to measure, separated by commas (default "+strings.Join(names, ",")+")", func(wanted string) error {
		chosen = nil
		for name := range strings.SplitSeq(wanted, ",") {
			i := slices.Index(names, name)
			if i < 0 {
				return fmt.Errorf("there are %s", strings.Join(names, ", "))
			}
			chosen = append(chosen, all[i])
		}
		return nil
	})
	return &chosen
}
