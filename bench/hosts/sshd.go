package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/hopbench/hopbench/internal/testbed/labtest"
)

// errNoSSHD is why no sshd can run in the namespaces of a lab.
var errNoSSHD = errors.New("an sshd takes root, openssh-server, openssh-client and util-linux")

// startSSHD starts an sshd at the destination, and has an ssh that logs in there, in the
// folder that comes first in the PATH of programs in nodes. The user namespace of a lab has a single user, and sshd needs more:
// so it is in the destination's network namespace alone, as only root of this machine may
// be, and has a /run of its own, with the folder that it wants there.
func (n *network) startSSHD() error {
	if os.Geteuid() != 0 {
		return errNoSSHD
	}
	sshd, server := exec.LookPath("sshd")
	ssh, client := exec.LookPath("ssh")
	_, keygen := exec.LookPath("ssh-keygen")
	_, nsenter := exec.LookPath("nsenter")
	if err := errors.Join(server, client, keygen, nsenter); err != nil {
		return fmt.Errorf("%w: %w", errNoSSHD, err)
	}
	namespace, err := n.destinationNamespace()
	if err != nil {
		return err
	}
	for _, key := range []string{"host", "user"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", n.path(key)).CombinedOutput(); err != nil {
			return fmt.Errorf("make a key of ssh: %w: %s", err, out)
		}
	}
	host, err := os.ReadFile(n.path("host.pub"))
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		"known":       n.reached() + " " + string(host),
		"config":      fmt.Sprintf("User root\nIdentityFile %s\nIdentitiesOnly yes\nIdentityAgent none\nUserKnownHostsFile %s\nGlobalKnownHostsFile none\n", n.path("user"), n.path("known")),
		"ssh":         fmt.Sprintf("#!/bin/sh\nexec %s -F %s \"$@\"\n", ssh, n.path("config")),
		"sshd_config": fmt.Sprintf("ListenAddress %s\nHostKey %s\nAuthorizedKeysFile %s\nPidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n", n.reached(), n.path("host"), n.path("user.pub")),
	} {
		if err := n.write(name, text); err != nil {
			return err
		}
	}
	c := exec.Command("nsenter", "--net="+namespace, "unshare", "--mount", "sh", "-c",
		`mount -t tmpfs -o mode=0755 tmpfs /run && mkdir -m 0755 /run/sshd && exec "$0" -D -e -f "$1"`, sshd, n.path("sshd_config"))
	var said bytes.Buffer
	c.Stderr = &said
	if err := c.Start(); err != nil {
		return fmt.Errorf("start sshd: %w", err)
	}
	n.closers = append(n.closers, func() error {
		_ = c.Process.Kill() // it may have ended
		if err := c.Wait(); c.ProcessState == nil || c.ProcessState.Exited() {
			return fmt.Errorf("sshd ended by itself: %w: %s", err, said.String())
		}
		return nil // killed
	})
	return nil
}

func (n *network) path(name string) string { return filepath.Join(n.folder, name) }

// destinationNamespace is the network namespace of the destination, seen from outside of
// the lab.
func (n *network) destinationNamespace() (string, error) {
	for pid, line := range labtest.Descendants(os.Getpid()) {
		if strings.HasPrefix(line, "hopbench:"+n.destination+" ") {
			return fmt.Sprintf("/proc/%d/ns/net", pid), nil
		}
	}
	return "", fmt.Errorf("no process of the lab is the agent of %s", n.destination)
}
