//go:build !linux && !darwin && !windows

package service

import (
	"context"
	"errors"
	"runtime"
)

// errUnknown says that hopbench does not know how this system starts services.
var errUnknown = errors.New("hopbench cannot install services on " + runtime.GOOS + ": have the system start hopbench agent --listen")

// Install fails.
func Install(context.Context, Agent) error { return errUnknown }

// Uninstall fails.
func Uninstall(context.Context) error { return errUnknown }

// Run is run.
func Run(ctx context.Context, run func(context.Context) error) error { return run(ctx) }
