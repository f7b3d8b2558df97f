package service

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Install makes the agent start now and whenever this host does, in place of one that
// was installed before. The user nobody must be able to read the token's file.
func Install(ctx context.Context, a Agent) error {
	if _, err := os.Stat(plistFile); err == nil {
		_ = run(ctx, "launchctl", "bootout", "system/"+label) // it may not be loaded
	}
	if err := os.WriteFile(plistFile, []byte(plist(a)), 0o644); err != nil {
		return fmt.Errorf("write the property list, which root may: %w", err)
	}
	return run(ctx, "launchctl", "bootstrap", "system", plistFile)
}

// Uninstall ends the agent and removes what Install made.
func Uninstall(ctx context.Context) error {
	if _, err := os.Stat(plistFile); err != nil {
		return fmt.Errorf("no agent is installed: %w", err)
	}
	return errors.Join(run(ctx, "launchctl", "bootout", "system/"+label), os.Remove(plistFile))
}

// Run is run; launchd needs no more than a process.
func Run(ctx context.Context, run func(context.Context) error) error { return run(ctx) }
