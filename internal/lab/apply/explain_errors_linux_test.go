package apply

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
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
