package apply

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/lab/filter"
	"github.com/hopbench/hopbench/internal/lab/plan"
	"github.com/hopbench/hopbench/internal/lab/topology"
)

// Node is a network namespace that the supervisor holds.
type Node struct {
	spec   topology.Node
	ns     *os.File        // /proc/…/ns/net
	handle *netlink.Handle // its socket is in the namespace
	// counting are the counters of its functions.
	counting []filter.Counting
	// refused are the optional sysctls that could not be set, with the reason.
	refused    []string
	activeWays int // of its Spread, where that was changed, else 0
	// sharing says that its interfaces have one meter (see shared_egress_linux.go).
	sharing bool
}

// Spec is what the node was made from.
func (n *Node) Spec() topology.Node { return n.spec }

// LoopbackUp brings lo up in the network namespace of the calling process.
func LoopbackUp() error {
	own, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer own.Close()
	return bringLoopbackUp(own)
}

// bringLoopbackUp uses that the loopback device is the first of every namespace.
func bringLoopbackUp(h *netlink.Handle) error {
	if err := h.LinkSetUp(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: 1, Name: "lo"}}); err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	return nil
}

// inThread runs f in a fresh thread that ends afterwards, so that f may move it
// to other namespaces.
func inThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		done <- f()
	}()
	return <-done
}

// createNode makes the namespace, applies the sysctls of ops and brings lo up.
func createNode(spec topology.Node, ops []plan.SetSysctl) (*Node, error) {
	n := &Node{spec: spec}
	err := inThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make network namespace: %w", ExplainNamespace(err))
		}
		ns, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			return fmt.Errorf("hold network namespace: %w", err)
		}
		n.ns = ns
		if n.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
			return fmt.Errorf("open netlink: %w", err)
		}
		for _, o := range ops {
			if err := n.setSysctl(o); err != nil {
				return fmt.Errorf("%s: %w", o, ExplainNamespace(err))
			}
		}
		return bringLoopbackUp(n.handle)
	})
	if err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

// close lets go of the namespace; the kernel removes it with its last process.
func (n *Node) close() {
	if n.handle != nil {
		n.handle.Close()
	}
	if n.ns != nil {
		n.ns.Close()
	}
}

// Within runs f in a thread of the node's network namespace.
func (n *Node) Within(f func() error) error {
	return inThread(func() error {
		if err := unix.Setns(int(n.ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter the network namespace of node %s: %w", n.spec.Name, err)
		}
		return f()
	})
}

// Enter moves the calling thread into the node: its network namespace, and a
// mount namespace of its own in which /sys shows that.
func (n *Node) Enter() error {
	if err := unix.Setns(int(n.ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the network namespace of node %s: %w", n.spec.Name, err)
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount namespace in node %s: %w", n.spec.Name, err)
	}
	// Containers often hide parts of /sys; the kernel then refuses a fresh one
	// to a user namespace (mount_too_revealing in fs/namespace.c), and the
	// program sees the /sys of the host. Nothing of the lab depends on it.
	err := unix.Mount("sysfs", "/sys", "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RDONLY, "")
	if err != nil && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("mount /sys in node %s: %w", n.spec.Name, err)
	}
	return nil
}

// setSysctl applies a SetSysctl operation in the calling thread's namespace.
func (n *Node) setSysctl(o plan.SetSysctl) error {
	value := o.Value
	var least int
	if _, err := fmt.Sscanf(value, plan.AtLeast+"%d", &least); err == nil {
		var a, b, largest int
		now, err := filter.ReadSysctl(o.Key)
		if err == nil {
			_, err = fmt.Sscan(now, &a, &b, &largest)
		}
		if err != nil {
			return n.optional(o, err)
		}
		if largest >= least {
			return nil
		}
		value = fmt.Sprintf("%d %d %d", a, b, least)
	}
	return n.optional(o, writeSysctl(o.Key, value))
}

// writeSysctl does it in one write of an existing file, as procfs wants.
func writeSysctl(key, value string) error {
	f, err := os.OpenFile(filter.SysctlPath(key), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// optional turns the refusal of an optional sysctl into a record of it.
func (n *Node) optional(o plan.SetSysctl, err error) error {
	if err == nil || !o.Optional {
		return err
	}
	if o.Key == plan.DefaultCongestion {
		return nil // the node's routes name the algorithm, which always takes
	}
	n.refused = append(n.refused, fmt.Sprintf("node %s: %s=%s was refused: %v", n.spec.Name, o.Key, o.Value, err))
	return nil
}
