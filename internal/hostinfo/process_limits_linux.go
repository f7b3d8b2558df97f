package hostinfo

import (
	"bufio"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"
)

// MaxThreads is how many threads the system lets this process and its kin have
// together, 0 if unknown: the least of RLIMIT_NPROC, where it binds, of pids.max in
// the process's control group and in those above it, and of what the kernel has room
// for. What others use of it already is not taken off. It reads files, so ask once.
func MaxThreads() int { return limits{os.DirFS("/")}.threads() }

// MaxMemoryBytes is how much memory this process may use, 0 if unknown: the least
// of the machine's, of the limits of the process's control group and of those above
// it, and of RLIMIT_AS and RLIMIT_DATA. It reads files, so ask once.
func MaxMemoryBytes() int64 { return limits{os.DirFS("/")}.memory() }

// limits reads what the kernel says in a file system whose root is the host's.
type limits struct{ root fs.FS }

func (l limits) threads() int {
	all := l.values("pids", "pids.max", "pids.max")
	if l.processesCount() {
		all = append(all, l.resource("Max processes"))
	}
	for _, name := range []string{"proc/sys/kernel/threads-max", "proc/sys/kernel/pid_max"} {
		all = append(all, numberIn(l.read(name)))
	}
	return int(min(least(all), math.MaxInt32))
}

func (l limits) memory() int64 {
	all := l.values("memory", "memory.max", "memory.limit_in_bytes")
	all = append(all, l.resource("Max address space"), l.resource("Max data size"), l.field("proc/meminfo", "MemTotal:", 10)<<10)
	return least(all)
}

// least is the smallest of the values that are known, 0 if none is.
func least(values []int64) int64 {
	known := slices.DeleteFunc(values, func(v int64) bool { return v <= 0 })
	if len(known) == 0 {
		return 0
	}
	return slices.Min(known)
}

// processesCount says whether RLIMIT_NPROC binds this process. It does not bind
// root nor who has one of two capabilities, all of the initial user namespace
// (copy_process in kernel/fork.c); in another namespace they are worth nothing here.
func (l limits) processesCount() bool {
	if strings.Join(strings.Fields(l.read("proc/self/uid_map")), " ") != "0 0 4294967295" {
		return true
	}
	const status = "proc/self/status"
	const may = 1<<unix.CAP_SYS_RESOURCE | 1<<unix.CAP_SYS_ADMIN
	return l.field(status, "Uid:", 10) != 0 && l.field(status, "CapEff:", 16)&may == 0
}

// resource is the soft limit of a line of /proc/self/limits, 0 for none.
func (l limits) resource(name string) int64 {
	return l.field("proc/self/limits", name, 10)
}

// field is the first number behind a name with which a line of a file begins, 0 if
// there is none.
func (l limits) field(file, name string, base int) int64 {
	lines := bufio.NewScanner(strings.NewReader(l.read(file)))
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), name)
		if fields := strings.Fields(rest); ok && len(fields) > 0 {
			n, _ := strconv.ParseInt(fields[0], base, 64) // "unlimited" is none
			return n
		}
	}
	return 0
}

// values are the limits of a controller on the way from this process's control group
// up to the root of what this process sees of the hierarchy. Each of version 2 is in
// the file two, of version 1 in the file one.
func (l limits) values(controller, two, one string) (all []int64) {
	for line := range strings.Lines(l.read("proc/self/cgroup")) {
		// cgroups(7): hierarchy-ID:controller-list:cgroup-path
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		file := one
		if parts[0] == "0" {
			file = two
		} else if !slices.Contains(strings.Split(parts[1], ","), controller) {
			continue
		}
		top, below, ok := l.mounted(controller, parts[0] == "0", parts[2])
		for ok {
			all = append(all, numberIn(l.read(path.Join(top, below, file))))
			if below == "." {
				break
			}
			below = path.Dir(below)
		}
	}
	return all
}

// mounted finds where a hierarchy of control groups is mounted, and where below that
// a group is, "." for the very place. A container may see its own group as the root
// (mountinfo's fourth field), and nothing of other groups.
func (l limits) mounted(controller string, two bool, group string) (top, below string, ok bool) {
	for line := range strings.Lines(l.read("proc/self/mountinfo")) {
		// proc_pid_mountinfo(5): ID parent major:minor root point options [optional…] - type source superoptions
		left, right, cut := strings.Cut(line, " - ")
		mount, super := strings.Fields(left), strings.Fields(right)
		if !cut || len(mount) < 5 || len(super) < 3 {
			continue
		}
		if two && super[0] != "cgroup2" || !two && (super[0] != "cgroup" || !slices.Contains(strings.Split(super[2], ","), controller)) {
			continue
		}
		root, point := unescaped(mount[3]), unescaped(mount[4])
		below = "."
		inside := strings.HasPrefix(path.Clean(group)+"/", strings.TrimSuffix(path.Clean(root), "/")+"/")
		if inside && !strings.Contains(group, "..") {
			below = path.Join(".", strings.TrimPrefix(path.Clean(group), path.Clean(root)))
		}
		return strings.TrimPrefix(path.Clean(point), "/"), below, true
	}
	return "", "", false
}

// unescaped undoes what /proc/self/mountinfo does to spaces and the like: \040.
func unescaped(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

// unlimited is from where on a number stands for no limit: version 1 of the control
// groups has the largest multiple of a page for it.
const unlimited = 1 << 62

// numberIn is the number that text begins with, 0 for "max" and the like.
func numberIn(text string) int64 {
	digits := text[:len(text)-len(strings.TrimLeftFunc(text, unicode.IsDigit))]
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n >= unlimited {
		return 0
	}
	return n
}

// read is what is in a file, nothing if it cannot be read: what is not known is no
// limit.
func (l limits) read(name string) string {
	f, err := l.root.Open(name)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()                      // opened for reading
	text, _ := io.ReadAll(io.LimitReader(f, maxProcFile)) // so far as it could be read
	return string(text)
}

// MaxDescriptors is how many files this process may have open, 0 if unknown.
func MaxDescriptors() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return int(min(limit.Cur, math.MaxInt32))
}
