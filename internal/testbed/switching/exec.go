package switching

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/printable"
)

// endingTime is how long a command has to end once it is told to, and what it has
// started to let go of its output.
const endingTime = 2 * time.Second

// Exec runs a command, without a shell, an input or a terminal on which it could ask for
// a password, and returns what it printed on standard output. When ctx is over, it is
// ended with all that it has started.
func Exec(ctx context.Context, c Command) (string, error) {
	if len(c.Argv) == 0 {
		return "", errors.New("there is no command")
	}
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = c.Dir, append(os.Environ(), c.Env...), endingTime
	var out, complaint bounded
	cmd.Stdout, cmd.Stderr = &out, &complaint
	end := together(cmd)
	err := cmd.Start()
	if err == nil {
		end.started(cmd)
		err = cmd.Wait()
	}
	end.over(ctx.Err() != nil)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(err, exec.ErrWaitDelay):
		// It ended well, and something that it started goes on and holds its output.
	case err != nil && len(complaint.text) > 0:
		return "", fmt.Errorf("%w: %s", err, printable.Line(strings.TrimSpace(string(complaint.text)), longestQuote))
	case err != nil:
		return "", err
	}
	if out.more {
		return "", fmt.Errorf("it printed more than %d KiB", maxOutput>>10)
	}
	return string(out.text), nil
}
