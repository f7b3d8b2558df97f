//go:build linux || darwin

package service

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// run runs a command of the system's.
func run(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
