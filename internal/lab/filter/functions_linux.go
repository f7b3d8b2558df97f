package filter

import (
	"os"
	"strings"
)

// Applier is a Function on Linux.
type Applier interface {
	Function
	// Apply puts it in place, for as long as the node lasts. What it returns counts
	// for it; nil counts nothing.
	Apply(Namespace) (Counting, error)
}

// Namespace is the network namespace of a node.
type Namespace interface {
	// Descriptor refers to it.
	Descriptor() int
	// Within runs f in a thread of it.
	Within(f func() error) error
	// TrySysctl sets a value of the calling thread's namespace where the kernel
	// allows it.
	TrySysctl(key, value string) error
	// AddFact notes a sentence on what the machine does not allow.
	AddFact(format string, args ...any)
}

// SysctlPath is the file of a dotted name; it shows the values of the network
// namespace of the thread that opens it.
func SysctlPath(key string) string {
	return "/proc/sys/" + strings.ReplaceAll(key, ".", "/")
}

// ReadSysctl reads a value of the calling thread's network namespace.
func ReadSysctl(key string) (string, error) {
	b, err := os.ReadFile(SysctlPath(key))
	return strings.Join(strings.Fields(string(b)), " "), err
}
