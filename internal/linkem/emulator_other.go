//go:build !linux

package linkem

import (
	"context"
	"errors"
	"os"
)

// ErrPortClosed is what Run reports when a port was closed under it.
var ErrPortClosed = errors.New("link emulator: port closed")

var errNeedsLinux = errors.New("a link emulator needs Linux")

// Kind is how a port reaches its network device.
type Kind string

// The kinds of port.
const (
	TAP    Kind = "tap"
	Packet Kind = "packet"
)

// Port is one end of a link emulator. There are none on this system.
type Port struct{}

// Name is empty.
func (p *Port) Name() string { return "" }

// Kind is empty.
func (p *Port) Kind() Kind { return "" }

// File fails: it needs Linux.
func (p *Port) File() (*os.File, error) { return nil, errNeedsLinux }

// Close fails: it needs Linux.
func (p *Port) Close() error { return errNeedsLinux }

// OpenTAP fails: it needs Linux.
func OpenTAP(string, Config) (*Port, error) { return nil, errNeedsLinux }

// OpenPacket fails: it needs Linux.
func OpenPacket(string) (*Port, error) { return nil, errNeedsLinux }

// PortFromFile fails: it needs Linux.
func PortFromFile(f *os.File, _ Kind, _ string) (*Port, error) {
	return nil, errors.Join(errNeedsLinux, f.Close())
}

// Link emulator joins two ports. There are none on this system.
type Emulator struct{}

// New fails: it needs Linux.
func New(_, _ *Port, _ Config) (*Emulator, error) { return nil, errNeedsLinux }

// Inspect does nothing.
func (c *Emulator) Inspect(Inspector) {}

// Counters are all zero.
func (c *Emulator) Counters() Counters { return Counters{} }

// Run fails: it needs Linux.
func (c *Emulator) Run(context.Context) error { return errNeedsLinux }

// TuneProcess fails: it needs Linux.
func TuneProcess(int) error { return errNeedsLinux }
