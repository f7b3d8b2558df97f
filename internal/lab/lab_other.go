//go:build !linux

package lab

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"github.com/hopbench/hopbench/internal/idps"
)

// ErrClosed is what a lab's methods return after Close.
var ErrClosed = errors.New("the lab is closed")

var errNotLinux = errors.New("the lab is made of Linux network namespaces: run it on Linux, or in a Linux virtual machine")

// Main handles nothing: there are no roles of a lab on this system.
func Main([]string) (code int, handled bool) { return 0, false }

// Lab is a running lab; there is none on this system.
type Lab struct{}

// Start says that the lab needs Linux.
func Start(context.Context, Topology, Options) (*Lab, error) { return nil, errNotLinux }

// Close does nothing.
func (*Lab) Close() error { return nil }

// Control says that the lab needs Linux.
func (*Lab) Control(string) (net.Conn, error) { return nil, errNotLinux }

// Done is nil.
func (*Lab) Done() <-chan struct{} { return nil }

// Err says that the lab needs Linux.
func (*Lab) Err() error { return errNotLinux }

// Nodes is empty.
func (*Lab) Nodes() []string { return nil }

// Environment is empty.
func (*Lab) Environment() map[string]string { return nil }

// Facts is empty.
func (*Lab) Facts() []string { return nil }

// Stderr is empty.
func (*Lab) Stderr() string { return "" }

// Counters says that the lab needs Linux.
func (*Lab) Counters(context.Context, ...string) (Counters, error) { return Counters{}, errNotLinux }

// Switch says that the lab needs Linux.
func (*Lab) Switch(context.Context, string) error { return errNotLinux }

// SwitchedPaths are none.
func (*Lab) SwitchedPaths() []SwitchedPath { return nil }

// SwitchedPathsOf says that the lab needs Linux.
func SwitchedPathsOf(context.Context, string) ([]SwitchedPath, error) { return nil, errNotLinux }

// SwitchIn says that the lab needs Linux.
func SwitchIn(context.Context, string, string) error { return errNotLinux }

// OuterPorts says that the lab needs Linux.
func (*Lab) OuterPorts(context.Context, string, OuterPath) ([]uint16, error) { return nil, errNotLinux }

// Scale says that the lab needs Linux.
func (*Lab) Scale(context.Context, Path, string, int) error { return errNotLinux }

// WatchBackends says that the lab needs Linux.
func (*Lab) WatchBackends(context.Context, Path, uint16) error { return errNotLinux }

// BackendsDown is empty.
func (*Lab) BackendsDown(Path) []netip.Addr { return nil }

// SetMode says that the lab needs Linux.
func (*Lab) SetMode(context.Context, string, idps.Mode) error { return errNotLinux }

// Alerts says that the lab needs Linux.
func (*Lab) Alerts(context.Context, string) ([]idps.AlertRecord, error) { return nil, errNotLinux }

// Exec says that the lab needs Linux.
func (*Lab) Exec(context.Context, string, Command) (int, error) { return 0, errNotLinux }

// Publish says that the lab needs Linux.
func (*Lab) Publish(string) error { return errNotLinux }

// Running says that the lab needs Linux.
func Running() ([]string, error) { return nil, errNotLinux }

// NodesOf says that the lab needs Linux.
func NodesOf(context.Context, string) ([]string, error) { return nil, errNotLinux }

// ExecIn says that the lab needs Linux.
func ExecIn(context.Context, string, string, Command) (int, error) { return 0, errNotLinux }

// Check finds that the lab needs Linux.
func Check(context.Context) []Finding {
	return []Finding{{Name: "Linux", Required: true, Detail: errNotLinux.Error(), Remedy: "everything but the lab works here: `hopbench serve` and `hopbench test`"}}
}
