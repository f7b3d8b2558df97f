package base

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hopbench/hopbench/internal/spelling"
)

// Exactly is cobra.ExactArgs with a message that says what is missing.
func Exactly(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return Usage(fmt.Errorf("%s needs %s; see %s --help", c.CommandPath(), strings.Join(names[len(args):], " and "), c.CommandPath()))
		case len(args) > len(names):
			return Usage(fmt.Errorf("%s does not take %q; %ssee %s --help", c.CommandPath(), args[len(names)], behindEqualsSign(c), c.CommandPath()))
		}
		return nil
	}
}

// behindEqualsSign says of flags that were given without their value how they are given one: a word
// that follows is an argument.
func behindEqualsSign(c *cobra.Command) (hint string) {
	c.Flags().Visit(func(f *pflag.Flag) {
		if f.NoOptDefVal != "" && f.NoOptDefVal != "true" && f.Value.String() == f.NoOptDefVal {
			hint += fmt.Sprintf("a value of --%s follows an equals sign: --%[1]s=VALUE; ", f.Name)
		}
	})
	return hint
}

// AtMost is Exactly for names that may be left out.
func AtMost(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		return Exactly(names[:min(len(args), len(names))]...)(c, args)
	}
}

// UnknownCommand is a word in the place of a command that there is not.
type UnknownCommand struct {
	Of, Word string // what of the command line was understood, and what was not
	Near     string // the command that was probably meant, or empty
}

func (e *UnknownCommand) Error() string {
	if e.Near != "" {
		return fmt.Sprintf("%s has no command %q; did you mean %q?", e.Of, e.Word, e.Near)
	}
	return fmt.Sprintf("%s has no command %q; see %s --help", e.Of, e.Word, e.Of)
}

// unknownCommand is the first word, if there is one, behind a command that has others below.
func unknownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var known []string
	for _, below := range c.Commands() {
		if below.IsAvailableCommand() {
			known = append(known, below.Name())
		}
	}
	return Usage(&UnknownCommand{Of: c.CommandPath(), Word: args[0], Near: spelling.Nearest(args[0], known)})
}

// refuseUnknown has every command that has others below it refuse a word which is none of
// them, where the library would print its help as if all were well.
func refuseUnknown(c *cobra.Command) {
	if !c.HasSubCommands() {
		return
	}
	c.Args = unknownCommand
	if !c.Runnable() {
		c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	}
	for _, below := range c.Commands() {
		refuseUnknown(below)
	}
}

// refuseUnknownHelp has `help` refuse a command that there is not. For a command of the library's that
// is what it was given; it would show the help of the root.
func refuseUnknownHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() == "help" {
			c.Args = func(_ *cobra.Command, args []string) error {
				of, rest, err := root.Find(args)
				if err != nil {
					return Usage(err)
				}
				return unknownCommand(of, rest)
			}
		}
	}
}

// refuseEmpty has every command refuse a flag that is given without a text, as a variable of the
// shell that is not set leaves it: it would be taken for one that was left out.
func refuseEmpty(c *cobra.Command) {
	c.PreRunE = func(c *cobra.Command, _ []string) (err error) {
		c.Flags().Visit(func(f *pflag.Flag) {
			list := f.Value.Type() == "stringSlice" && f.Value.String() == "[]"
			if list || f.Value.Type() == "string" && f.Value.String() == "" {
				err = Usage(fmt.Errorf("--%s is empty; leave it out or give it a value", f.Name))
			}
		})
		return err
	}
	for _, below := range c.Commands() {
		refuseEmpty(below)
	}
}
