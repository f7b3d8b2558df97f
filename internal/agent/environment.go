package agent

import (
	"os"
	"runtime"
	"strconv"
	"strings"
)

// sysctls are the settings that bear on what an endpoint measures. They belong
// to the agent's network namespace.
var sysctls = [...]string{
	"net.core.default_qdisc",
	"net.core.rmem_max",
	"net.core.wmem_max",
	"net.ipv4.tcp_congestion_control",
	"net.ipv4.tcp_moderate_rcvbuf",
	"net.ipv4.tcp_rmem",
	"net.ipv4.tcp_timestamps",
	"net.ipv4.tcp_window_scaling",
	"net.ipv4.tcp_wmem",
}

// environment describes this host as far as it can be read; what cannot be
// read, on Linux or elsewhere, is absent.
func environment() map[string]string {
	env := map[string]string{
		"platform":   runtime.GOOS + "/" + runtime.GOARCH,
		"processors": strconv.Itoa(runtime.NumCPU()),
		"go":         runtime.Version(),
	}
	if name, err := os.Hostname(); err == nil {
		env["host"] = name
	}
	read := func(key, path string) {
		if text, err := os.ReadFile(path); err == nil {
			env[key] = strings.Join(strings.Fields(string(text)), " ")
		}
	}
	read("kernel", "/proc/sys/kernel/osrelease")
	for _, name := range sysctls {
		read(name, "/proc/sys/"+strings.ReplaceAll(name, ".", "/"))
	}
	return env
}
