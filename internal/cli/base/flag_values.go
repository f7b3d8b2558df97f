package base

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
)

// Flags read what iperf3 and ping read as well as this program's own notation.

// OptionValue is the value of a flag that shapes tests: a float64 in the base unit
// of the flag's type, a string, true, or nil when the flag was not given.
type OptionValue struct {
	Flag  kind.Flag
	Text  string
	Value any
}

func (v *OptionValue) Set(text string) (err error) {
	v.Text = text
	switch v.Flag.Type {
	case kind.Truth:
		var given bool
		given, err = strconv.ParseBool(text)
		if v.Value = nil; given { // the last one holds
			v.Value = given
		}
		return err
	case kind.Word:
		if !slices.Contains(v.Flag.Words, text) {
			return fmt.Errorf("it is %s, not %q", kind.Either(v.Flag.Words), text)
		}
		v.Value = text
	case kind.Name, kind.Text, kind.File:
		v.Value = text
	case kind.Whole:
		var n int
		if n, err = strconv.Atoi(text); err == nil && n < 1 {
			err = errors.New("write 1 or more, or leave it out")
		}
		v.Value = float64(n)
	case kind.Number:
		v.Value, err = strconv.ParseFloat(text, 64)
	default:
		parse := map[kind.Type]func(string) (float64, error){
			kind.Time: parseSeconds, kind.Rate: parseRate, kind.Size: parseSize, kind.Share: quantity.ParseFraction,
			kind.DSCP: ParseDSCP, kind.TOS: parseTOS,
		}[v.Flag.Type]
		v.Value, err = parse(text)
	}
	if err == nil && v.Value == 0.0 && v.Flag.Least != "" {
		err = fmt.Errorf("write %s or more, or leave it out", v.Flag.Least)
	}
	return err
}

func (v *OptionValue) String() string { return v.Text }

// Number is the value of a flag that takes one, 0 when it was not given.
func (v *OptionValue) Number() float64 {
	n, _ := v.Value.(float64)
	return n
}

// Type is what the help text calls the value.
func (v *OptionValue) Type() string {
	if v.Flag.Type == kind.Word {
		return strings.Join(v.Flag.Words, "|")
	}
	return map[kind.Type]string{
		kind.Truth: "bool", kind.Whole: "int", kind.Number: "number", kind.Time: "time", kind.Size: "size", kind.Rate: "rate",
		kind.Share: "share", kind.Name: "name", kind.Text: "string", kind.DSCP: "dscp", kind.TOS: "byte", kind.File: "file",
	}[v.Flag.Type]
}

// SecondsValue is a flag that takes a length of time as those of `hopbench test` do.
type SecondsValue time.Duration

func (v *SecondsValue) Set(text string) error {
	seconds, err := parseSeconds(text)
	*v = SecondsValue(measurement.Seconds(seconds).Duration())
	return err
}

func (v *SecondsValue) String() string {
	if *v == 0 {
		return "" // so that the help text shows no default
	}
	return time.Duration(*v).String()
}

func (v *SecondsValue) Type() string { return "time" }

// parseSeconds reads a length of time: "10" is seconds, as for iperf3 and ping.
func parseSeconds(text string) (float64, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		if !(seconds >= 0 && seconds <= quantity.MaxDuration.Seconds()) {
			return 0, fmt.Errorf("%s seconds is not between 0 and %v", text, quantity.MaxDuration)
		}
		return measurement.Seconds(seconds).Duration().Seconds(), nil
	}
	d, err := quantity.ParseDuration(text)
	return d.Seconds(), err
}

// parseRate reads a rate in bits per second: "1G" as for iperf3, or "1Gbit".
func parseRate(text string) (float64, error) {
	number, power, ok := withLetter(text)
	if !ok {
		return quantity.ParseRate(text)
	}
	rate := number * math.Pow(1000, power)
	if rate > quantity.MaxRateBitsPerSecond {
		return 0, fmt.Errorf("rate %q is too large; write at most 1T", text)
	}
	return rate, nil
}

// parseSize reads a number of bytes: "64K" is 64 × 1024 as for iperf3, "64kB" is
// 64 000.
func parseSize(text string) (float64, error) {
	number, power, ok := withLetter(text)
	if !ok {
		bytes, err := quantity.ParseBytes(text)
		return float64(bytes), err
	}
	bytes := number * math.Pow(1024, power)
	if bytes > quantity.MaxBytes || bytes != math.Trunc(bytes) {
		return 0, fmt.Errorf("%q is not a whole number of bytes that any test takes", text)
	}
	return bytes, nil
}

// withLetter reads a plain number, or one with iperf3's bare letter.
func withLetter(text string) (number, power float64, ok bool) {
	if text == "" {
		return 0, 0, false
	}
	bare := text
	if i := strings.IndexByte("KMGT", strings.ToUpper(text)[len(text)-1]); i >= 0 {
		power, bare = float64(i+1), text[:len(text)-1]
	}
	if bare == "" || strings.Trim(bare, "0123456789.") != "" {
		return 0, 0, false
	}
	number, err := strconv.ParseFloat(bare, 64)
	return number, power, err == nil
}

// DSCPNames are the code points with names: RFC 2474 (CS), RFC 2597 (AF), RFC
// 3246 (EF), RFC 5865 (VA), RFC 8622 (LE).
func DSCPNames() map[string]int {
	names := map[string]int{"EF": 46, "VA": 44, "LE": 1}
	for class := range 8 {
		names[fmt.Sprintf("CS%d", class)] = 8 * class
	}
	for class := 1; class <= 4; class++ {
		for drop := 1; drop <= 3; drop++ {
			names[fmt.Sprintf("AF%d%d", class, drop)] = 8*class + 2*drop
		}
	}
	return names
}

// ParseDSCP reads a differentiated services code point: a number or a name.
func ParseDSCP(text string) (float64, error) {
	if point, ok := DSCPNames()[strings.ToUpper(text)]; ok {
		return float64(point), nil
	}
	n, err := strconv.ParseInt(text, 0, 0)
	if err != nil || n < 0 || n > 63 {
		return 0, fmt.Errorf("%q is not a code point: a number from 0 to 63, or a name such as EF, AF41, CS1 or LE", text)
	}
	return float64(n), nil
}

// parseTOS reads the whole byte of which the upper six bits are the code point.
func parseTOS(text string) (float64, error) {
	n, err := strconv.ParseInt(text, 0, 0)
	if err != nil || n < 0 || n > 255 {
		return 0, fmt.Errorf("%q is not a byte: write 0 to 255, 0x.. or 0.., or use --dscp", text)
	}
	if n&3 != 0 {
		return 0, fmt.Errorf("the lower two bits of %q are ECN's (RFC 3168), which the kernel sets; write %#x", text, n&^3)
	}
	return float64(n >> 2), nil
}
