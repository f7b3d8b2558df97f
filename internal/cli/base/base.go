// Package base is what the commands of all programs share: how a command line is
// run and with which status it ends, how values of flags are read, and how text of others is
// shown.
//
// Results go to standard output; progress, hints and errors go to standard error.
package base

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/printable"
	"github.com/hopbench/hopbench/internal/spelling"
)

// Exit statuses.
const (
	ExitDone   = 0
	ExitFailed = 1 // or was stopped
	ExitUsage  = 2 // the command line or an input file is wrong
	ExitFound  = 3 // a comparison found what it was told to fail on
)

// Streams are where a command reads and writes.
type Streams struct {
	In  *os.File
	Out io.Writer
	Err io.Writer
}

// Execute runs one command line, args without the program's name.
func Execute(root *cobra.Command, args []string, stdin *os.File, stdout, stderr io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal asks for an orderly end; a second one ends at once.
	context.AfterFunc(ctx, stop)

	root.InitDefaultCompletionCmd(args...)
	refuseUnknown(root)
	root.SilenceUsage, root.SilenceErrors, root.DisableAutoGenTag = true, true, true
	root.SetFlagErrorFunc(FlagError)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return root.ExecuteContext(ctx)
}

// usageError marks an error in the command line or an input file.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usage is an error in the command line or an input file.
func Usage(err error) error { return usageError{err} }

// StatusError is an exit status of a program that hopbench ran for the user.
type StatusError int

func (e StatusError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// Status is the exit status of a command that ended with an error, or with none, and says
// what it was.
func Status(err error, stderr io.Writer) int {
	if err == nil {
		return ExitDone
	}
	var status StatusError
	if errors.As(err, &status) {
		return int(status)
	}
	err, excluded := excluding(err)
	fmt.Fprintf(stderr, "hopbench: %s\n", ShownLines(err.Error(), "  "))
	var usage usageError
	if errors.As(err, &usage) || excluded {
		return ExitUsage
	}
	return ExitFailed
}

// Exactly is cobra.ExactArgs with a message that says what is missing.
func Exactly(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return Usage(fmt.Errorf("%s needs %s; see %s --help", c.CommandPath(), strings.Join(names[len(args):], " and "), c.CommandPath()))
		case len(args) > len(names):
			return Usage(fmt.Errorf("%s does not take %q; see %s --help", c.CommandPath(), args[len(names)], c.CommandPath()))
		}
		return nil
	}
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

// OneOf completes the value of a flag that is one of several.
func OneOf(values ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}

// AddVersion has a program print its version, the commit it was built from, the formats it
// reads and writes, by name, and what else it has to say of itself, in lines.
func AddVersion(root *cobra.Command, short, more string, formats map[string]string) {
	build := hostinfo.ThisBuild()
	print := func(c *cobra.Command, _ []string) error {
		var b strings.Builder
		fmt.Fprintf(&b, "hopbench %s (%s, %s/%s)\n", build.Version, build.Go, build.OS, build.Arch)
		if build.Commit != "" {
			fmt.Fprintf(&b, "commit %s", build.Commit)
			if build.CommitTime != "" {
				fmt.Fprintf(&b, " of %s", build.CommitTime)
			}
			if build.Modified {
				b.WriteString(", with changes")
			}
			b.WriteString("\n")
		}
		b.WriteString(more)
		for _, name := range slices.Sorted(maps.Keys(formats)) {
			fmt.Fprintf(&b, "%s format %s\n", name, formats[name])
		}
		_, err := io.WriteString(c.OutOrStdout(), b.String())
		return err
	}
	var asJSON bool
	command := &cobra.Command{Use: "version", Short: short, Args: Exactly(), RunE: func(c *cobra.Command, args []string) error {
		if !asJSON {
			return print(c, args)
		}
		out := json.NewEncoder(c.OutOrStdout())
		out.SetIndent("", "  ")
		return out.Encode(struct {
			hostinfo.Build
			Formats map[string]string `json:"formats,omitempty"`
		}{build, formats})
	}}
	command.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	root.AddCommand(command)
	// The library's own flag needs text/template, with which the linker keeps 3 MB more.
	asked := root.Flags().BoolP("version", "v", false, "print the version")
	root.RunE = func(c *cobra.Command, args []string) error {
		if *asked {
			return print(c, args)
		}
		return c.Help()
	}
}

// IsTerminal says whether a stream is a terminal.
func IsTerminal(stream any) bool {
	f, ok := fileOf(stream)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && info.Mode()&os.ModeDevice != 0 && f.Name() != os.DevNull
}

// Over is a writer in front of another.
type Over interface{ Under() io.Writer }

func fileOf(stream any) (*os.File, bool) {
	if over, ok := stream.(Over); ok {
		stream = over.Under()
	}
	f, ok := stream.(*os.File)
	return f, ok
}

// TerminalWidth is the number of columns of w, 100 when it is no terminal.
func TerminalWidth(w io.Writer) int {
	if f, ok := fileOf(w); ok && IsTerminal(w) {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return 100
}

// maxShown bounds, in characters, a text that somebody else wrote.
const maxShown = 1000

// Shown is a line that may come from a file of a stranger, a peer or a lab,
// made safe for a terminal.
func Shown(text string) string { return printable.Line(text, maxShown) }

// ShownLines is Shown of a text of several lines. What follows the first begins
// with indent, so that a line of somebody else's does not look like one of ours.
func ShownLines(text, indent string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := range lines {
		lines[i] = Shown(lines[i])
	}
	return strings.Join(lines, "\n"+indent)
}

// SpareProcessor keeps flows from waiting for each other where there is one
// processor: their system calls block, and a blocked call gives its Go
// CPU back only after a while.
func SpareProcessor() {
	const enough = 4
	if runtime.GOMAXPROCS(0) == 1 {
		runtime.GOMAXPROCS(enough)
	}
}
