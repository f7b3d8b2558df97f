package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/hopbench/hopbench/internal/service"
)

// Where a package puts the unit, and where the unit looks for the token.
const (
	packaged    = "/usr/lib/systemd/system/" + service.ServerUnitName
	serverToken = "/etc/hopbench/token"
)

// testServer does with a package's server what its README says.
func testServer(ctx context.Context) error {
	var first, second int
	measure := func(more ...string) error {
		return far(ctx, append([]string{"test", host, "--only", "rr", "-t", "0.3", "-q"}, more...)...)
	}
	return steps([]step{
		{"unpack the server's unit, which does not start by itself", func() error {
			if err := errors.Join(os.WriteFile(packaged, []byte(service.ServerUnit()), 0o644), do(ctx, "systemctl", "daemon-reload")); err != nil {
				return err
			}
			p, err := server.properties(ctx)
			if err == nil && (p["LoadState"] != "loaded" || p["ActiveState"] != "inactive" || p["UnitFileState"] != "disabled") {
				err = fmt.Errorf("it is %s, %s, %s", p["LoadState"], p["ActiveState"], p["UnitFileState"])
			}
			return err
		}},
		{"start it without a token, which must not open the port", func() error {
			if err := do(ctx, "systemctl", "start", server.name); err == nil {
				return errors.New("it started")
			}
			// Systemd names the unit by its description, which names the file.
			status, err := exec.CommandContext(ctx, "systemctl", "status", "--no-pager", "--full", server.name).CombinedOutput()
			if said := string(status); !strings.Contains(said, "Assertion failed for ") || !strings.Contains(said, "token is in "+serverToken) {
				return fmt.Errorf("its status does not name the token's file: %w\n%s", err, status)
			}
			return server.silent()
		}},
		{"give it a token, and enable it", func() (err error) {
			if err := errors.Join(os.MkdirAll(filepath.Dir(serverToken), 0o755), os.WriteFile(serverToken, []byte("a token of the server alone\n"), 0o600)); err != nil {
				return err
			}
			if err := do(ctx, "systemctl", "enable", "--now", server.name); err != nil {
				return err
			}
			first, err = server.runs(ctx, 0)
			return errors.Join(err, humble(first, serverToken))
		}},
		{"measure with the token", func() error { return measure("--token-file", serverToken) }},
		{"measure without it, which is refused", func() error {
			err := measure()
			if err == nil {
				return errors.New("who has no token was served")
			}
			if !strings.Contains(err.Error(), "token") {
				return fmt.Errorf("the refusal says nothing of a token: %w", err)
			}
			return nil
		}},
		{"kill it, and see it come back", func() (err error) {
			if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
				return err
			}
			second, err = server.runs(ctx, first)
			return err
		}},
		{"measure again", func() error { return measure("--token-file", serverToken) }},
		{"restart it", func() error {
			if err := do(ctx, "systemctl", "restart", server.name); err != nil {
				return err
			}
			_, err := server.runs(ctx, second)
			return err
		}},
		{"stop it", func() error { return server.stop(ctx) }},
		{"remove it", func() error {
			return errors.Join(do(ctx, "systemctl", "disable", server.name), os.RemoveAll(filepath.Dir(serverToken)), os.Remove(packaged), do(ctx, "systemctl", "daemon-reload"))
		}},
	})
}
