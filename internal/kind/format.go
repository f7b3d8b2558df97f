package kind

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
)

// prefix is a unit, and how many of the smallest unit of its type it is.
type prefix struct {
	size float64
	name string
}

// Of each type the units, largest first, and how many of the smallest are one
// base unit.
var units = map[Type]struct {
	perBase  float64
	prefixes []prefix
}{
	Time: {1e9, []prefix{{3600e9, "h"}, {60e9, "m"}, {1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}}},
	Size: {1, []prefix{{1e12, "TB"}, {1e9, "GB"}, {1 << 30, "GiB"}, {1e6, "MB"}, {1 << 20, "MiB"}, {1e3, "kB"}, {1 << 10, "KiB"}, {1, "B"}}},
	Rate: {1, []prefix{{1e12, "Tbit"}, {1e9, "Gbit"}, {1e6, "Mbit"}, {1e3, "kbit"}, {1, "bit"}}},
}

// Format writes a value as an experiment file does.
func (o Option) Format(value any) string {
	if v, ok := value.(float64); ok {
		return format(o.Type, v)
	}
	return fmt.Sprint(value)
}

// Range says which values the option takes for a kind, to end a sentence that
// begins with "write".
func (o Option) Range(k measurement.Kind) string {
	nouns := map[Type]string{
		Whole: "a whole number from ", DSCP: "a whole number from ", Number: "a number from ", Time: "a time from ", Size: "a size from ",
		Rate: "a rate from ", Share: "a fraction from ", Name: "a name of ", Text: "one line of ",
	}
	return nouns[o.Type] + o.bounds(k)
}

func (o Option) bounds(k measurement.Kind) string {
	limits := o.For(k)
	switch o.Type {
	case Truth:
		return "true or false"
	case Word:
		return Either(limits.Words)
	case Name:
		return fmt.Sprintf("at most %d characters", maxName)
	case Text:
		return fmt.Sprintf("at most %d bytes", int(limits.Most))
	}
	return format(o.Type, limits.Least) + " to " + format(o.Type, limits.Most)
}

// format writes a number in the largest unit of which it is a whole number.
func format(t Type, v float64) string {
	if t == Share {
		return strconv.FormatFloat(math.Round(1e11*v)/1e9, 'f', -1, 64) + "%"
	}
	u, ok := units[t]
	if v == 0 && t == Time {
		return "0s"
	}
	if whole := math.Round(v * u.perBase); ok && math.Abs(whole) < 1<<53 {
		for _, p := range u.prefixes {
			if n := whole / p.size; n == math.Trunc(n) && n != 0 || p.size == 1 {
				return strconv.FormatFloat(n, 'f', -1, 64) + p.name
			}
		}
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// Either lists words as alternatives: "tcp, udp or icmp".
func Either(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

func texts[T ~string](words []T) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = string(w)
	}
	return out
}
