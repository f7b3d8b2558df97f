//go:build !linux

package lab

import (
	"errors"
	"net"

	"github.com/hopbench/hopbench/internal/lab/message"
)

const selfExecutable = ""

var errNotLinux = errors.New("the lab is made of Linux network namespaces: run it on Linux, or in a Linux virtual machine")

// Main handles nothing: there are no roles of a lab on this system.
func Main([]string) (code int, handled bool) { return 0, false }

func (*Lab) launch(string) error { return errNotLinux }

func listen(string) (*net.UnixListener, error) { return nil, errNotLinux }

func join(string) (*message.Conn, error) { return nil, errNotLinux }

func ownPeer(*net.UnixConn) error { return errNotLinux }

// Running says that the lab needs Linux.
func Running() ([]string, error) { return nil, errNotLinux }
