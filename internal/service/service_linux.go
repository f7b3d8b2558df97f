package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
)

// Install makes the agent start now and whenever this host does, in place of one that
// was installed before.
func Install(ctx context.Context, a Agent) error {
	for _, hidden := range []string{"/home/", "/root/", "/run/user/", "/tmp/", "/var/tmp/"} {
		if strings.HasPrefix(a.Program, hidden) {
			return fmt.Errorf("a service does not see %s: copy hopbench first, with: install %s /usr/local/bin/hopbench, and install the agent with that", hidden, a.Program)
		}
	}
	text, err := Describe("linux", a)
	if err != nil {
		return err
	}
	if err := os.WriteFile(unitFile, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write the unit, which root may: %w", err)
	}
	return errors.Join(run(ctx, "systemctl", "daemon-reload"),
		run(ctx, "systemctl", "enable", Name), run(ctx, "systemctl", "restart", Name))
}

// Uninstall ends the agent and removes what Install made.
func Uninstall(ctx context.Context) error {
	if _, err := os.Stat(unitFile); err != nil {
		return fmt.Errorf("no agent is installed: %w", err)
	}
	err := run(ctx, "systemctl", "disable", "--now", Name)
	return errors.Join(err, os.Remove(unitFile), run(ctx, "systemctl", "daemon-reload"))
}

// Run is run; systemd needs no more than a process.
func Run(ctx context.Context, run func(context.Context) error) error { return run(ctx) }
