package runner

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// HostEnvironment is what of this machine bears on the numbers. What cannot
// be read is left out.
func HostEnvironment() map[string]string {
	env := map[string]string{
		"hopbench": Version(),
		"go":       runtime.Version(),
		"platform": runtime.GOOS + "/" + runtime.GOARCH,
		"cpus":     fmt.Sprint(runtime.NumCPU()),
	}
	set := func(key, value string) {
		if value != "" {
			env[key] = value
		}
	}
	set("kernel", firstLine("/proc/sys/kernel/osrelease"))
	set("cpu_model", field("/proc/cpuinfo", "model name"))
	set("memory_total", field("/proc/meminfo", "MemTotal"))
	set("clock_source", firstLine("/sys/devices/system/clocksource/clocksource0/current_clocksource"))
	set("host_load_average", firstLine("/proc/loadavg"))
	if name, err := os.Hostname(); err == nil {
		env["host"] = name
	}
	return env
}

// Version is the module's version, or the commit it was built from.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	version := info.Main.Version
	if version == "" {
		version = "(devel)"
	}
	return version
}

// firstLine of a small file, empty if it cannot be read.
func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line)
}

// field finds "name : value" in a file of the proc file system.
func field(path, name string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		key, value, ok := strings.Cut(lines.Text(), ":")
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
