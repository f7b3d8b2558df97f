// Package base is what the commands of all programs share: how a command line is
// run and with which status it ends, how values of flags are read, and how text of others is
// shown.
//
// Results go to standard output; progress, hints and errors go to standard error.
package base

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
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
	alive, gone := untilHangUp(context.Background())
	defer gone()
	ctx, stop := signal.NotifyContext(alive, os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal asks for an orderly end; a second one ends at once.
	context.AfterFunc(ctx, stop)

	root.InitDefaultCompletionCmd(args...)
	refuseUnknown(root)
	refuseUnknownHelp(root)
	refuseEmpty(root)
	root.SilenceUsage, root.SilenceErrors, root.DisableAutoGenTag = true, true, true
	root.SetFlagErrorFunc(FlagError)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return root.ExecuteContext(ctx)
}

// HangUp is the signal of a terminal that is closed, none where nohup(1) has it ignored.
func HangUp() []os.Signal {
	if signal.Ignored(syscall.SIGHUP) {
		return nil
	}
	return []os.Signal{syscall.SIGHUP}
}

// untilHangUp ends with the terminal. Of a closed one both the kernel and the shell tell, so
// that a second signal asks for nothing more than the first.
func untilHangUp(ctx context.Context) (context.Context, context.CancelFunc) {
	signals := HangUp()
	if signals == nil {
		return context.WithCancel(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	told := make(chan os.Signal, 1)
	signal.Notify(told, signals...)
	go func() {
		select {
		case <-told:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(told)
		cancel()
	}
}

// OutliveReader keeps the process alive when nobody reads its output any more, as when
// Ctrl-C ends the tee(1) behind it, too. What it writes then fails, and what it has under
// way still ends in good order.
func OutliveReader() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

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
