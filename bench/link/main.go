// Command link plants delay, loss and rate in a link emulator between two network
// namespaces and prints what it measures there next to what was planted. It
// needs Linux, and root or unprivileged user namespaces, and nothing else. Its exit status
// is 1 when a measured value misses its bound.
package main

import (
	"fmt"
	"os"
)

func main() {
	status, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "link:", err)
		status = 2
	}
	os.Exit(status)
}
