package hostinfo

import "golang.org/x/sys/unix"

// HostID tells this machine from others until it restarts; empty if unknown.
func HostID() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return identity(id)
}
