package hostinfo

import (
	"golang.org/x/sys/windows/registry"
)

// HostID tells this installation of Windows from others; empty if unknown.
func HostID() string {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, `SOFTWARE\Microsoft\Cryptography`, registry.QUERY_VALUE|registry.WOW64_64KEY)
	if err != nil {
		return ""
	}
	defer func() { _ = key.Close() }() // opened for reading
	id, _, err := key.GetStringValue("MachineGuid")
	if err != nil {
		return ""
	}
	return identity(id)
}
