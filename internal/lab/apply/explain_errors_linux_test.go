package apply

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/testutil"
)

// The kernel says of too many processes that a resource is temporarily unavailable.
func TestExplainProcess(t *testing.T) {
	for err, want := range map[error]string{unix.EAGAIN: "ulimit -u", unix.ENOMEM: unix.ENOMEM.Error()} {
		if said := ExplainStart(err); !strings.Contains(said.Error(), want) || !errors.Is(said, err) {
			t.Errorf("%v is %v, want %q in it", err, said, want)
		}
	}
}

// What a container refuses inside of the lab's namespaces is said with how to allow it.
func TestExplainNamespace(t *testing.T) {
	for err, want := range map[error]string{
		unix.EPERM: "seccomp=unconfined", unix.EACCES: "apparmor=unconfined", unix.EROFS: "systempaths=unconfined", unix.ENOSPC: MaxNetNamespaces,
	} {
		if strings.Contains(want, "unconfined") && err != unix.EROFS && HostSetting(ApparmorRestriction) == "1" {
			want = ApparmorRestriction
		}
		if said := ExplainNamespace(err); !strings.Contains(said.Error(), want) || !errors.Is(said, err) {
			t.Errorf("%v is %v, want %q in it", err, said, want)
		}
	}
}

// The kernel refuses a user namespace to whoever is in a chroot, whatever else allows it.
func TestExplainChroot(t *testing.T) {
	if said := ExplainStart(unix.EPERM); strings.Contains(said.Error(), "chroot") {
		t.Errorf("outside of any: %v", said)
	}
	testutil.InNamespaces(t, unix.CLONE_NEWNS, func(t *testing.T) {
		root := t.TempDir()
		testutil.OK(t, os.Mkdir(root+"/proc", 0o755))
		testutil.OK(t, unix.Mount("/proc", root+"/proc", "", unix.MS_BIND|unix.MS_REC, ""))
		outside, err := os.Open("/")
		testutil.OK(t, err)
		testutil.OK(t, unix.Chroot(root))
		said := ExplainStart(unix.EPERM)
		testutil.OK(t, outside.Chdir())
		testutil.OK(t, unix.Chroot("."))
		testutil.OK(t, unix.Unmount(root+"/proc", unix.MNT_DETACH))
		if !strings.Contains(said.Error(), "chroot") {
			t.Error(said)
		}
	})
}
