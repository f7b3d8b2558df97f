package base

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/testutil"
)

// The manual has the same table.
func TestFlagsOfIPerf3AreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/iperf3.md")
	testutil.OK(t, err)
	for _, f := range slices.Concat(iperf3Flags, iperf3ServerFlags) {
		row := fmt.Sprintf("| `--%s` | %s |", f.name, f.instead)
		if f.short != "" {
			row = fmt.Sprintf("| `-%s`, `--%s` | %s |", f.short, f.name, f.instead)
		}
		if !strings.Contains(string(text), row) {
			t.Errorf("docs/iperf3.md lacks\n%s", row)
		}
	}
}
