package apply

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/lab/filter"
)

// HostSetting reads a file of /proc/sys, "" where the kernel does not have it.
func HostSetting(key string) string {
	b, err := os.ReadFile(filter.SysctlPath(key))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// The sysctls that forbid user namespaces, and how to allow them.
const (
	MaxUserNamespaces   = "user.max_user_namespaces"
	MaxNetNamespaces    = "user.max_net_namespaces"
	UnprivilegedClone   = "kernel.unprivileged_userns_clone"
	ApparmorRestriction = "kernel.apparmor_restrict_unprivileged_userns"
)

// AppArmorProfile is the text of an AppArmor profile that allows executable to
// make user namespaces where Ubuntu restricts them.
func AppArmorProfile(executable string) string {
	return fmt.Sprintf(`abi <abi/4.0>,
include <tunables/global>
profile hopbench %q flags=(unconfined) {
  userns,
}
`, executable)
}

// ExplainStart turns the refusal of the supervisor's namespaces into what is
// set on this machine and how to allow it.
func ExplainStart(err error) error {
	root := "; or run it with sudo"
	if os.Geteuid() == 0 {
		root = ""
	}
	refused := errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)
	switch {
	case errors.Is(err, unix.ENOSPC):
		return fmt.Errorf("no more user or network namespaces are allowed here (%s=%s, %s=%s): raise them with sysctl%s: %w",
			MaxUserNamespaces, HostSetting(MaxUserNamespaces), MaxNetNamespaces, HostSetting(MaxNetNamespaces), root, err)
	case refused && RootLacksSetfcap():
		return fmt.Errorf("root lacks CAP_SETFCAP here, without which it may not be mapped into a user namespace (user_namespaces(7)): add that capability, in a container with `--cap-add SETFCAP`, or run it as another user: %w", err)
	case refused && InChroot():
		return fmt.Errorf("no user namespace can be made in a chroot (user_namespaces(7)): run it outside: %w", err)
	case refused && HostSetting(ApparmorRestriction) == "1":
		return fmt.Errorf("AppArmor restricts user namespaces here (%s=1): install the profile that `hopbench doctor` prints%s: %w",
			ApparmorRestriction, root, err)
	case refused && HostSetting(UnprivilegedClone) == "0":
		return fmt.Errorf("user namespaces are for root alone here: set `sysctl %s=1`%s: %w", UnprivilegedClone, root, err)
	case refused:
		return fmt.Errorf("this machine does not let the program make user namespaces (a container needs a seccomp profile that allows clone with CLONE_NEWUSER, such as `--security-opt seccomp=unconfined`)%s: %w", root, err)
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("this kernel lacks user, pid or network namespaces (CONFIG_USER_NS, CONFIG_PID_NS, CONFIG_NET_NS): %w", err)
	}
	return fmt.Errorf("start the lab's supervisor: %w", ExplainProcess(err))
}

// RootLacksSetfcap says that this process is root without the capability that the kernel
// wants of whoever maps user 0 into a user namespace. Others map themselves without it.
func RootLacksSetfcap() bool {
	var now [2]unix.CapUserData
	err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &now[0])
	return err == nil && os.Geteuid() == 0 && now[0].Effective&(1<<unix.CAP_SETFCAP) == 0
}

// InChroot says that the root directory is not where a file system is mounted, as far as the
// list of mounts shows (proc_pid_mountinfo(5)).
func InChroot() bool {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[4] == "/" {
			return false
		}
	}
	return true
}

// ExplainProcess names the limits that keep a process from being started.
func ExplainProcess(err error) error {
	if errors.Is(err, unix.EAGAIN) {
		return fmt.Errorf("no more processes are allowed here: raise the limit of the user (ulimit -u) or of the control group (pids.max; of a container --pids-limit): %w", err)
	}
	return err
}

// ExplainNamespace does the same for what is refused inside of them.
func ExplainNamespace(err error) error {
	switch {
	case errors.Is(err, unix.ENOSPC):
		// The lab's own user namespace shows its own limit, not the host's.
		return fmt.Errorf("no more network namespaces are allowed here: raise %s on the host with sysctl: %w", MaxNetNamespaces, err)
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("/proc/sys is read-only here, as in most containers: run it on the host, or in a container with --privileged or --security-opt systempaths=unconfined: %w", err)
	case (errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)) && HostSetting(ApparmorRestriction) == "1":
		return fmt.Errorf("AppArmor restricts user namespaces here (%s=1): install the profile that `hopbench doctor` prints, or run it with sudo: %w",
			ApparmorRestriction, err)
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES):
		return fmt.Errorf("refused here, as by the seccomp or AppArmor profile of a container: run it on the host, or in a container with --privileged, or with seccomp=unconfined and apparmor=unconfined as --security-opt: %w", err)
	}
	return err
}

// explainKernel names what a kernel lacks when it refuses a link or a qdisc.
func explainKernel(err error) error {
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("this kernel lacks the kind of link (veth: CONFIG_VETH): %w", err)
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("this kernel lacks the queueing discipline (tbf: CONFIG_NET_SCH_TBF): %w", err)
	}
	return err
}
