//go:build !unix

package cli

import "io"

// terminalWidth is the width that output is laid out for where the terminal
// cannot be asked.
func terminalWidth(io.Writer) int { return 100 }
