package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"
)

// One that fails is started again after a while, as by systemd; after a day its failures are
// forgotten.
const (
	restartDelay      = 5 * time.Second
	failuresForgotten = 24 * time.Hour
)

// stopTime is how long a service may take to end what it does.
const stopTime = 20 * time.Second

// Install makes the agent start now and whenever this host does, in place of one that
// was installed before. LocalService must be able to read the token's file.
func Install(ctx context.Context, a Agent) error {
	manager, err := mgr.Connect()
	if err != nil {
		return fmt.Errorf("reach the service manager, which administrators may: %w", err)
	}
	defer manager.Disconnect()
	if old, err := manager.OpenService(Name); err == nil {
		if err := errors.Join(remove(ctx, old), old.Close()); err != nil {
			return fmt.Errorf("replace the service that is there: %w", err)
		}
	}
	made, err := manager.CreateService(Name, a.Program, mgr.Config{
		StartType: mgr.StartAutomatic, DisplayName: displayName, ServiceStartName: `NT AUTHORITY\LocalService`,
		Description: "Lets the coordinator of a hopbench experiment measure from this host and to it.",
	}, a.command()[1:]...)
	if err != nil {
		return fmt.Errorf("make the service: %w", err)
	}
	again := made.SetRecoveryActions([]mgr.RecoveryAction{{Type: mgr.ServiceRestart, Delay: restartDelay}}, uint32(failuresForgotten/time.Second))
	// An agent that fails says so and stops, which is no crash. Wine knows no such setting.
	if err := made.SetRecoveryActionsOnNonCrashFailures(true); !errors.Is(err, windows.ERROR_INVALID_LEVEL) {
		again = errors.Join(again, err)
	}
	if again != nil {
		again = fmt.Errorf("have the service start again when it fails: %w", again)
	}
	started := made.Start()
	if started != nil {
		started = fmt.Errorf("start the service: %w; may LocalService read %s?", started, a.TokenFile)
	}
	return errors.Join(again, started, made.Close())
}

// Uninstall ends the agent and removes what Install made.
func Uninstall(ctx context.Context) error {
	manager, err := mgr.Connect()
	if err != nil {
		return fmt.Errorf("reach the service manager, which administrators may: %w", err)
	}
	defer manager.Disconnect()
	s, err := manager.OpenService(Name)
	if err != nil {
		return fmt.Errorf("no agent is installed: %w", err)
	}
	return errors.Join(remove(ctx, s), s.Close())
}

// remove stops a service, waits for its end and removes it.
func remove(ctx context.Context, s *mgr.Service) error {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	status, err := s.Control(svc.Stop)
	for err == nil && status.State != svc.Stopped && ctx.Err() == nil {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
		status, err = s.Query()
	}
	return s.Delete() // one that cannot be stopped goes when it ends
}

// Run is run, which ends when the service manager says so if that started this process. Only
// the manager knows whether it did: parents and sessions of processes are not the same on
// all systems (under Wine a service is in a user's session).
func Run(ctx context.Context, run func(context.Context) error) error {
	h := &handler{ctx: ctx, run: run}
	err := svc.Run(Name, h)
	if errors.Is(err, windows.ERROR_FAILED_SERVICE_CONTROLLER_CONNECT) {
		return run(ctx)
	}
	return errors.Join(err, h.err)
}

// handler speaks with the service manager.
type handler struct {
	ctx context.Context
	run func(context.Context) error
	err error
}

// Execute implements svc.Handler.
func (h *handler) Execute(_ []string, asked <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- h.run(ctx) }()
	status <- svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
	for {
		select {
		case h.err = <-done:
			const failed = 1
			if h.err != nil {
				return true, failed
			}
			return false, 0
		case r := <-asked:
			switch r.Cmd {
			case svc.Interrogate:
				status <- r.CurrentStatus
			case svc.Stop, svc.Shutdown:
				status <- svc.Status{State: svc.StopPending, WaitHint: uint32(stopTime / time.Millisecond)}
				cancel()
			}
		}
	}
}
