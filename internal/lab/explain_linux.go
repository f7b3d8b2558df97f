package lab

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// hostSetting reads a file of /proc/sys, "" where the kernel does not have it.
func hostSetting(key string) string {
	b, err := os.ReadFile(sysctlPath(key))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// The sysctls that forbid user namespaces, and how to allow them.
const (
	maxUserNamespaces   = "user.max_user_namespaces"
	maxNetNamespaces    = "user.max_net_namespaces"
	unprivilegedClone   = "kernel.unprivileged_userns_clone"
	apparmorRestriction = "kernel.apparmor_restrict_unprivileged_userns"
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

// explainStart turns the refusal of the supervisor's namespaces into what is
// set on this machine and how to mend it.
func explainStart(err error) error {
	root := "; or run it with sudo"
	if os.Geteuid() == 0 {
		root = ""
	}
	refused := errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)
	switch {
	case errors.Is(err, unix.ENOSPC):
		return fmt.Errorf("no more user or network namespaces are allowed here (%s=%s, %s=%s): raise them with sysctl%s: %w",
			maxUserNamespaces, hostSetting(maxUserNamespaces), maxNetNamespaces, hostSetting(maxNetNamespaces), root, err)
	case refused && hostSetting(apparmorRestriction) == "1":
		return fmt.Errorf("AppArmor restricts user namespaces here (%s=1): install the profile that `hopbench doctor` prints%s: %w",
			apparmorRestriction, root, err)
	case refused && hostSetting(unprivilegedClone) == "0":
		return fmt.Errorf("user namespaces are for root alone here: set `sysctl %s=1`%s: %w", unprivilegedClone, root, err)
	case refused:
		return fmt.Errorf("this machine does not let the program make user namespaces (a container needs a seccomp profile that allows clone with CLONE_NEWUSER, such as `--security-opt seccomp=unconfined`)%s: %w", root, err)
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("this kernel lacks user, pid or network namespaces (CONFIG_USER_NS, CONFIG_PID_NS, CONFIG_NET_NS): %w", err)
	}
	return fmt.Errorf("start the lab's supervisor: %w", err)
}

// explainNamespace does the same for what is refused inside of them.
func explainNamespace(err error) error {
	switch {
	case errors.Is(err, unix.ENOSPC):
		// The lab's own user namespace shows its own limit, not the host's.
		return fmt.Errorf("no more network namespaces are allowed here: raise %s on the host with sysctl: %w", maxNetNamespaces, err)
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("/proc/sys is read-only here, as in most containers: run it on the host, or in a container with --privileged or --security-opt systempaths=unconfined: %w", err)
	case (errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)) && hostSetting(apparmorRestriction) == "1":
		return fmt.Errorf("AppArmor restricts user namespaces here (%s=1): install the profile that `hopbench doctor` prints, or run it with sudo: %w",
			apparmorRestriction, err)
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
