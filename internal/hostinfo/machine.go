package hostinfo

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// started is about when this process was.
var started = time.Now().UTC()

// Process names this process to people at other machines, and tells it from any other.
func Process() string {
	host, err := os.Hostname()
	if err != nil {
		host = "a host without a name"
	}
	return fmt.Sprintf("process %d on %s, since %s", os.Getpid(), host, started.Format(time.RFC3339))
}

// Machine is the hardware and software of this machine. What cannot be read is
// absent.
func Machine() map[string]string {
	env := map[string]string{
		"hopbench": Version(),
		"go":       runtime.Version(),
		"platform": runtime.GOOS + "/" + runtime.GOARCH,
		"cpus":     strconv.Itoa(runtime.NumCPU()),
	}
	set(env, "hopbench_commit", ThisBuild().Commit)
	set(env, "kernel", line("/proc/sys/kernel/osrelease"))
	set(env, "cpu_model", field("/proc/cpuinfo", "model name"))
	set(env, "memory_total", field("/proc/meminfo", "MemTotal"))
	set(env, "clock_source", line("/sys/devices/system/clocksource/clocksource0/current_clocksource"))
	set(env, "host_load_average", line("/proc/loadavg"))
	if name, err := os.Hostname(); err == nil {
		env["host"] = name
	}
	return env
}

// End is Machine, without its load, with the settings of the network namespace of
// this process that bear on what an end of a path measures.
func End() map[string]string {
	env := Machine()
	delete(env, "host_load_average")
	for _, name := range []string{
		"net.core.default_qdisc",
		"net.core.rmem_max",
		"net.core.wmem_max",
		"net.ipv4.tcp_congestion_control",
		"net.ipv4.tcp_moderate_rcvbuf",
		"net.ipv4.tcp_rmem",
		"net.ipv4.tcp_timestamps",
		"net.ipv4.tcp_window_scaling",
		"net.ipv4.tcp_wmem",
	} {
		set(env, name, line("/proc/sys/"+strings.ReplaceAll(name, ".", "/")))
	}
	return env
}

func set(env map[string]string, key, value string) {
	if value != "" {
		env[key] = value
	}
}

// line is the first line of a small file, empty if it cannot be read.
func line(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return strings.Join(strings.Fields(first), " ")
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
