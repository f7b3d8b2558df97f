package base

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Complete has the values of a flag completed.
func Complete(c *cobra.Command, flag string, by cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, by); err != nil {
		panic(err) // there is no such flag: a mistake of the caller's
	}
}

// First completes the first argument, and no further one.
func First(by cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return by(c, args, typed)
	}
}

// OneOf completes a value that is one of several.
func OneOf(values ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}

// ListOf completes the last of a list of values, separated by commas, with those that are not
// in it yet. One that ends in "=" is a key, which is in the list with whatever follows.
func ListOf(values ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		before := typed[:strings.LastIndexByte(typed, ',')+1]
		var out []string
		for _, value := range values {
			given := func(one string) bool {
				return one == value || strings.HasSuffix(value, "=") && strings.HasPrefix(one, value)
			}
			if !slices.ContainsFunc(strings.Split(before, ","), given) {
				out = append(out, before+value)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}
