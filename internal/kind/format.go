package kind

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
)

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

// format writes a number in the unit that makes it shortest. What is out of all
// bounds, as it can be in a spec that a peer sent, is written as it is.
func format(t Type, v float64) string {
	switch {
	case t == Share:
		return quantity.FormatFraction(math.Round(1e11*v) / 1e11)
	case !(v >= 0 && v < 1<<53/1e9):
	case t == Time:
		return quantity.FormatDuration(measurement.Seconds(v).Duration())
	}
	switch {
	case !(v >= 0 && v < 1<<53):
	case t == Size:
		return quantity.FormatBytes(int64(v))
	case t == Rate:
		return quantity.FormatRate(v)
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

// Texts are words of any type as text.
func Texts[T ~string](words []T) (out []string) {
	for _, w := range words {
		out = append(out, string(w))
	}
	return out
}
