package lab

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/testutil"
)

func TestCheck(t *testing.T) {
	needLab(t)
	names := map[string]bool{}
	for f := range Check(t.Context()) {
		t.Logf("%-20s ok=%-5v required=%-5v %s | %s", f.Name, f.OK, f.Required, f.Detail, f.Remedy)
		if names[f.Name] {
			t.Errorf("%s is there twice", f.Name)
		}
		names[f.Name] = true
		if f.Detail == "" || !f.OK && f.Remedy == "" {
			t.Errorf("%s does not say what was found or how to fix it", f.Name)
		}
	}
	for _, want := range []string{"kernel", "user namespaces", "veth", "tbf", "TAP devices", "CPUs", "memory"} {
		if !names[want] {
			t.Errorf("no finding on %s", want)
		}
	}
}

// A container hides parts of /proc, so that a lab in it has no /proc of its own. It needs none
// for packet filters.
func TestCheckWithHiddenProc(t *testing.T) {
	filters := []string{"nftables", "connection tracking", "address translation"}
	testutil.InNamespaces(t, unix.CLONE_NEWNS|unix.CLONE_NEWPID, func(t *testing.T) {
		testutil.OK(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		testutil.OK(t, unix.Mount("proc", "/proc", "proc", 0, ""))
		needLab(t)
		without := map[string]string{}
		for f := range Check(t.Context()) {
			if slices.Contains(filters, f.Name) && !f.OK {
				without[f.Name] = f.Detail
			}
		}
		testutil.OK(t, unix.Mount("none", "/proc/fs", "tmpfs", unix.MS_RDONLY, ""))
		hidden := false
		for f := range Check(t.Context()) {
			hidden = hidden || f.Name == "settings in nodes"
			if slices.Contains(filters, f.Name) && !f.OK && without[f.Name] == "" {
				t.Errorf("%s: %s", f.Name, f.Detail)
			}
		}
		if !hidden {
			t.Error("the lab has a /proc of its own")
		}
	})
}

// Most containers have a read-only /proc/sys: no lab with a router comes up there.
func TestCheckWithReadOnlySettings(t *testing.T) {
	testutil.InNamespaces(t, unix.CLONE_NEWNS, func(t *testing.T) {
		testutil.OK(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		needLab(t)
		testutil.OK(t, unix.Mount("/proc/sys", "/proc/sys", "", unix.MS_BIND, ""))
		// A user may not take from a mount what it must not do already (mount_namespaces(7)).
		testutil.OK(t, unix.Mount("", "/proc/sys", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""))
		said := false
		for f := range Check(t.Context()) {
			said = said || f.Name == "forwarding" && !f.OK && f.Required
		}
		if !said {
			t.Error("a lab with a router can be built")
		}
	})
}

// Who may open raw sockets needs no leave for others: ping tests open those.
func TestCheckOfPingAsRoot(t *testing.T) {
	testutil.InNamespaces(t, unix.CLONE_NEWNET, func(t *testing.T) {
		// A new namespace has 1 0, which is no group.
		for _, f := range hostFindings() {
			if f.Name == "ping from the host" && !f.OK {
				t.Errorf("%s", f.Detail)
			}
		}
	})
}
