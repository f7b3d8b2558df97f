package hostinfo

import (
	"testing"
	"testing/fstest"
)

// host is the file system of a host whose kernel has room for many threads and has
// 64 GiB, with a process of a user without limits, and what the files change.
func host(files map[string]string) limits {
	all := map[string]string{
		"proc/sys/kernel/threads-max": "500000\n",
		"proc/sys/kernel/pid_max":     "4194304\n",
		"proc/meminfo":                "MemTotal:       67108864 kB\nMemFree:        1 kB\n",
		"proc/self/uid_map":           "         0          0 4294967295\n",
		"proc/self/status":            "Name:\tx\nUid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000\n",
		"proc/self/limits":            resources("unlimited", "unlimited", "unlimited"),
		"proc/self/cgroup":            "0::/\n",
		"proc/self/mountinfo":         mountTwo,
	}
	for name, text := range files {
		all[name] = text
	}
	root := fstest.MapFS{}
	for name, text := range all {
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return limits{root}
}

func resources(processes, space, data string) string {
	return "Limit                     Soft Limit           Hard Limit           Units     \n" +
		"Max data size             " + data + "   unlimited   bytes     \n" +
		"Max processes             " + processes + "   unlimited   processes \n" +
		"Max address space         " + space + "   unlimited   bytes     \n"
}

const (
	mountTwo = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	mountOne = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n" +
		"35 31 0:32 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n" +
		"39 31 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n" +
		"41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
)

func TestLimits(t *testing.T) {
	const gib = 1 << 30
	cases := map[string]struct {
		files   map[string]string
		threads int
		memory  int64
	}{
		"nothing but the machine": {nil, 500000, 64 * gib},
		"a user's limit": {map[string]string{
			"proc/self/limits": resources("200", "unlimited", "unlimited"),
		}, 200, 64 * gib},
		"which root need not keep": {map[string]string{
			"proc/self/limits": resources("200", "unlimited", "unlimited"),
			"proc/self/status": "Uid:\t0\t0\t0\t0\nCapEff:\t0000000000000000\n",
		}, 500000, 64 * gib},
		"nor who may exceed limits": {map[string]string{
			"proc/self/limits": resources("200", "unlimited", "unlimited"),
			"proc/self/status": "Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000001000000\n",
		}, 500000, 64 * gib},
		"but root of a user namespace": {map[string]string{
			"proc/self/limits":  resources("200", "unlimited", "unlimited"),
			"proc/self/status":  "Uid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n",
			"proc/self/uid_map": "0 1000 1\n",
		}, 200, 64 * gib},
		"address space and data": {map[string]string{
			"proc/self/limits": resources("unlimited", "5368709120", "4294967296"),
		}, 500000, 4 * gib},
		"a service of version 2": {map[string]string{
			"proc/self/cgroup": "0::/system.slice/hopbench.service\n",
			"sys/fs/cgroup/system.slice/hopbench.service/pids.max":   "max\n",
			"sys/fs/cgroup/system.slice/hopbench.service/memory.max": "536870912\n",
			"sys/fs/cgroup/system.slice/pids.max":                    "4915\n",
			"sys/fs/cgroup/system.slice/memory.max":                  "max\n",
		}, 4915, gib / 2},
		"the group itself is tightest": {map[string]string{
			"proc/self/cgroup":           "0::/a/b\n",
			"sys/fs/cgroup/a/b/pids.max": "100\n",
			"sys/fs/cgroup/a/pids.max":   "4915\n",
		}, 100, 64 * gib},
		"a container's namespace": {map[string]string{
			"proc/self/cgroup":         "0::/\n",
			"sys/fs/cgroup/pids.max":   "64\n",
			"sys/fs/cgroup/memory.max": "1073741824\n",
		}, 64, gib},
		"a container without one": {map[string]string{
			"proc/self/cgroup":       "0::/docker/abc\n",
			"proc/self/mountinfo":    "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
			"sys/fs/cgroup/pids.max": "64\n",
		}, 64, 64 * gib},
		"a group below a container's": {map[string]string{
			"proc/self/cgroup":             "0::/docker/abc/init\n",
			"proc/self/mountinfo":          "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
			"sys/fs/cgroup/init/pids.max":  "63\n",
			"sys/fs/cgroup/pids.max":       "64\n",
			"sys/fs/cgroup/other/pids.max": "1\n",
		}, 63, 64 * gib},
		"a neighbour of a longer name": {map[string]string{
			"proc/self/cgroup":         "0::/docker/abcd\n",
			"proc/self/mountinfo":      "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
			"sys/fs/cgroup/pids.max":   "64\n",
			"sys/fs/cgroup/d/pids.max": "1\n",
		}, 64, 64 * gib},
		"a group that cannot be seen": {map[string]string{
			"proc/self/cgroup":       "0::/../../other\n",
			"sys/fs/cgroup/pids.max": "64\n",
		}, 64, 64 * gib},
		"version 1": {map[string]string{
			"proc/self/cgroup":                                      "9:name=systemd:/\n8:pids:/docker/abc\n4:memory:/docker/abc\n0::/\n",
			"proc/self/mountinfo":                                   mountOne,
			"sys/fs/cgroup/pids/docker/abc/pids.max":                "300\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":            "9223372036854771712\n",
			"sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes": "536870912\n",
		}, 300, gib / 2},
		"controllers of version 1 together": {map[string]string{
			"proc/self/cgroup":                 "3:cpu,pids:/x\n",
			"proc/self/mountinfo":              "39 31 0:36 / /my\\040groups rw - cgroup cgroup rw,cpu,pids\n",
			"my groups/x/pids.max":             "7\n",
			"sys/fs/cgroup/pids/pids.max":      "1\n",
			"sys/fs/cgroup/cpu,pids/pids.max":  "1\n",
			"sys/fs/cgroup/memory/none_of_it":  "1\n",
			"sys/fs/cgroup/memory/memory.high": "1\n",
		}, 7, 64 * gib},
		"nonsense": {map[string]string{
			"proc/self/cgroup":            "::\n\n0\n0::a/../../..\n4:pids\n",
			"proc/self/mountinfo":         "1 2 3 - \n - - -\n30 23 0:26 / / rw - cgroup2\n",
			"proc/self/limits":            "Max processes\nMax address space             -5 x\n",
			"proc/meminfo":                "MemTotal:\n",
			"proc/sys/kernel/threads-max": "-4\n",
			"proc/sys/kernel/pid_max":     "99999999999999999999\n",
		}, 0, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			l := host(c.files)
			if got := l.threads(); got != c.threads {
				t.Errorf("%d threads, want %d", got, c.threads)
			}
			if got := l.memory(); got != c.memory {
				t.Errorf("%d bytes, want %d", got, c.memory)
			}
		})
	}
}

// No file is known where there is no /proc.
func TestLimitsWithoutProc(t *testing.T) {
	l := limits{fstest.MapFS{}}
	if threads, memory := l.threads(), l.memory(); threads != 0 || memory != 0 {
		t.Errorf("%d threads and %d bytes", threads, memory)
	}
}

func TestLimitsOfThisProcess(t *testing.T) {
	if MaxThreads() < 1 || MaxMemoryBytes() < 1<<20 {
		t.Errorf("%d threads and %d bytes", MaxThreads(), MaxMemoryBytes())
	}
}

func FuzzLimits(f *testing.F) {
	f.Add("0::/a/b\n8:pids:/x\n", mountTwo+mountOne, resources("5", "6", "7"), "max\n")
	f.Fuzz(func(t *testing.T, cgroup, mounts, resources, value string) {
		l := host(map[string]string{
			"proc/self/cgroup": cgroup, "proc/self/mountinfo": mounts, "proc/self/limits": resources,
			"sys/fs/cgroup/pids.max": value, "sys/fs/cgroup/memory.max": value,
		})
		if l.threads() < 0 || l.memory() < 0 {
			t.Errorf("%d threads and %d bytes", l.threads(), l.memory())
		}
	})
}
