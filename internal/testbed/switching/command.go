package switching

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/printable"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
)

// Command is a command of the user's.
type Command struct {
	Argv []string
	Dir  string
	// Env is added to the environment of this process.
	Env []string
}

// longestQuote bounds, in runes, what is repeated of a command's output.
const longestQuote = 200

// quoted is a command's output as a word of a sentence.
func quoted(text string) string { return fmt.Sprintf("%q", printable.Line(text, longestQuote)) }

// shown is a command as a user would type it.
func shown(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = printable.Line(printable.ShellWord(a), longestQuote)
	}
	return strings.Join(words, " ")
}

// run runs a command of a switch, which learns from its environment what it is for.
func (s *Switcher) run(ctx context.Context, w inventory.Switch, value string, argv []string) (string, error) {
	out, err := s.o.Run(ctx, Command{Argv: argv, Dir: s.o.Dir, Env: []string{"HOPBENCH_SWITCH=" + w.Name, "HOPBENCH_VALUE=" + value}})
	if err != nil {
		return "", fmt.Errorf("%s: %w", shown(argv), err)
	}
	return out, nil
}

// read is the value that a switch says it has.
func (s *Switcher) read(ctx context.Context, n need) (string, error) {
	began := time.Now()
	out, err := s.run(ctx, n.Switch, n.value, n.Read)
	s.readTook[n.Name] = time.Since(began)
	return strings.TrimSpace(out), err
}

// command is set for a value that is not to stay. From before it begins until settle is
// told of its proof, the journal says until when it may act.
func (s *Switcher) command(ctx context.Context, n need) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.underWay[n.Name] = time.Now().Add(2 * n.Timeout) // one to end, and one as in settle
	if err := s.keep(); err != nil {
		return err
	}
	err := s.set(ctx, n)
	if err != nil {
		s.settle(false, n)
	}
	return err
}

// settle says whether commands were seen to act. What was not may act for another timeout:
// a program at a far end goes on when its ssh is ended, and a cloud takes its time.
func (s *Switcher) settle(seen bool, needs ...need) {
	for _, n := range needs {
		if _, commanded := s.underWay[n.Name]; commanded && !seen {
			s.unsettled[n.Name] = latest(s.unsettled[n.Name], time.Now().Add(n.Timeout))
		}
		delete(s.underWay, n.Name)
	}
	// Where that fails, the journal has the longer time of command.
	_ = s.keep()
}

// set runs the command of a value, and waits until the switch says that it has it. It goes
// on when ctx is over: a change that is cut off leaves nobody knows what.
func (s *Switcher) set(ctx context.Context, n need) error {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.Timeout)
	defer cancel()
	// Whatever becomes of the command, the value is not known until it is read.
	delete(s.state, n.Name)
	s.commanded[n.Name] = true
	command := n.Values[n.value]
	if _, err := s.run(limited, n.Switch, n.value, command); err != nil {
		if limited.Err() != nil {
			return fmt.Errorf("switch %s: the command of %s did not end within %v and was ended: %s; run it by hand to see why, or give the switch a longer timeout", n.Name, n.value, n.Timeout, shown(command))
		}
		return fmt.Errorf("switch %s: the command of %s failed: %w; run it by hand to see why", n.Name, n.value, err)
	}
	printed, failed := "", error(nil)
	if poll(limited, func() bool {
		v, err := s.read(limited, n)
		switch {
		case err == nil:
			printed, failed = v, nil
		case limited.Err() == nil || printed == "":
			failed = err
		}
		return err == nil && v == n.value
	}) {
		s.state[n.Name] = n.value
		return nil
	}
	if failed != nil {
		return fmt.Errorf("switch %s: %s was commanded, and for %v its value could not be read: %w; run its read command by hand to see why", n.Name, n.value, n.Timeout, failed)
	}
	return fmt.Errorf("switch %s: %s was commanded, and %v later %s still prints %s: the command did not act; run %s by hand, or give the switch a longer timeout",
		n.Name, n.value, n.Timeout, shown(n.Read), quoted(printed), shown(command))
}

// maxOutput bounds what a command may print, in bytes.
const maxOutput = 64 << 10

// bounded keeps the first maxOutput bytes that are written to it.
type bounded struct {
	text []byte
	more bool // was written
}

func (b *bounded) Write(p []byte) (int, error) {
	room := min(len(p), maxOutput-len(b.text))
	b.text = append(b.text, p[:room]...)
	b.more = b.more || room < len(p)
	return len(p), nil
}

// verify is the command that proves a value.
func verify(n need) []string { return append(slices.Clone(n.Verify), n.value) }
