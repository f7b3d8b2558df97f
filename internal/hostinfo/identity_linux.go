package hostinfo

import (
	"errors"
	"os"
)

// HostID tells this machine from others for as long as it runs: two containers
// of a machine have the same, two machines of one name have not. Empty if
// unknown.
func HostID() string {
	// random(4): drawn anew at every boot, and the same in every container.
	return identity(line("/proc/sys/kernel/random/boot_id"))
}

// NetworkID tells the network namespace of the calling thread from others,
// those of other machines included. Empty if unknown.
func NetworkID() string {
	// namespaces(7): "net:[4026531840]", an inode of this machine.
	name, err := os.Readlink("/proc/thread-self/ns/net")
	host := HostID()
	if err != nil || host == "" {
		return ""
	}
	return identity(host + " " + name)
}

// ClockID tells the monotonic clock of this process (CLOCK_MONOTONIC) from those of other
// machines and time namespaces. Empty if unknown.
func ClockID() string {
	host := HostID()
	if host == "" {
		return ""
	}
	// time_namespaces(7): "time:[4026531834]"; a kernel without them has one clock.
	name, err := os.Readlink("/proc/self/ns/time")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return ""
	}
	return identity(host + " " + name)
}
