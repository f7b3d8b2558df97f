package plan

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hopbench/hopbench/internal/lab/topology"
	"github.com/hopbench/hopbench/internal/linkem"
)

// impairments are what a link does to frames, in words.
func impairments(l topology.Link) string {
	c := l.Emulation
	offload := ""
	if c.NoOffload {
		offload = ", in single segments"
	}
	if c.Forward == c.Backward {
		return "both ways" + directionText(c.Forward) + offload + l.IDPS.String()
	}
	return "forward" + directionText(c.Forward) + " backward" + directionText(c.Backward) + offload + l.IDPS.String()
}

func directionText(d linkem.Direction) string {
	var b strings.Builder
	if d.Delay != 0 {
		fmt.Fprintf(&b, " delay %s", d.Delay)
	}
	if d.Jitter != 0 {
		fmt.Fprintf(&b, " jitter %s", d.Jitter)
	}
	fraction := func(name string, f float64) {
		if f != 0 {
			fmt.Fprintf(&b, " %s %g%%", name, f*100)
		}
	}
	fraction("loss", d.LossFraction)
	fraction("duplicate", d.DuplicateFraction)
	fraction("reorder", d.ReorderFraction)
	if d.ReorderBy != 0 {
		fmt.Fprintf(&b, " by %s", d.ReorderBy)
	}
	if d.RateBitsPerSecond != 0 {
		fmt.Fprintf(&b, " rate %sbit", strconv.FormatFloat(d.RateBitsPerSecond, 'f', -1, 64))
	}
	if d.QueueBytes != 0 {
		fmt.Fprintf(&b, " queue %dB", d.QueueBytes)
	}
	if d.InspectRateBitsPerSecond != 0 {
		fmt.Fprintf(&b, " rate while inspecting %sbit", strconv.FormatFloat(d.InspectRateBitsPerSecond, 'f', -1, 64))
	}
	if d.PerFlowRateBitsPerSecond != 0 {
		fmt.Fprintf(&b, " rate of each flow %sbit", strconv.FormatFloat(d.PerFlowRateBitsPerSecond, 'f', -1, 64))
	}
	if b.Len() == 0 {
		return " unimpaired"
	}
	return b.String()
}
