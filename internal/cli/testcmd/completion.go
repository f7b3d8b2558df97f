package testcmd

import (
	"maps"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
)

// completeTest completes the values of the flags of `hopbench test`.
func completeTest(c *cobra.Command) {
	values := map[string]cobra.CompletionFunc{
		"only": base.ListOf(texts(measurement.Kinds())...), "port": cobra.NoFileCompletions, "bind": cobra.NoFileCompletions,
		"congestion": completeCongestion, "device": completeDevices, versusFlag: completeVersus,
	}
	for _, flag := range kind.Flags() {
		switch {
		case values[flag.Name] != nil || flag.Type == kind.File || flag.Type == kind.Truth:
		case flag.Type == kind.Word:
			values[flag.Name] = base.OneOf(flag.Words...)
		case flag.Type == kind.DSCP:
			values[flag.Name] = base.OneOf(slices.Sorted(maps.Keys(base.DSCPNames()))...)
		default:
			values[flag.Name] = cobra.NoFileCompletions
		}
	}
	for flag, complete := range values {
		base.Complete(c, flag, complete)
	}
	c.ValidArgsFunction = cobra.NoFileCompletions
}

// completeVersus completes the last of the values of a --versus, after its key.
func completeVersus(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	last := typed[strings.LastIndexByte(typed, ',')+1:]
	key, _, found := strings.Cut(last, "=")
	values := []string{"port=", "bind=", "device=", "dscp="}
	if found {
		switch key += "="; key {
		case "device=":
			values, _ = completeDevices(c, args, "")
		case "dscp=":
			values = slices.Sorted(maps.Keys(base.DSCPNames()))
		default:
			values = nil
		}
	} else {
		key = ""
	}
	for i := range values {
		values[i] = strings.TrimSuffix(typed, last) + key + values[i]
	}
	return values, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeCongestion lists the algorithms that the kernel has loaded (Linux,
// Documentation/networking/ip-sysctl.rst); elsewhere nothing is known.
func completeCongestion(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return strings.Fields(string(text)), cobra.ShellCompDirectiveNoFileComp
}

func completeDevices(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	devices, err := net.Interfaces()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out []string
	for _, d := range devices {
		out = append(out, d.Name)
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
