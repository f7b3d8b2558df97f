package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/measurement"
)

// The types of flags that read what iperf3 and ping read beside this program's
// own notation.

// secondsValue is a length of time: "10" is seconds, as for iperf3 and ping.
type secondsValue time.Duration

func (v *secondsValue) Set(text string) error {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		if !(seconds >= 0 && seconds <= experiment.MaxDuration.Seconds()) {
			return fmt.Errorf("%s seconds is not between 0 and %v", text, experiment.MaxDuration)
		}
		*v = secondsValue(seconds * float64(time.Second))
		return nil
	}
	d, err := experiment.ParseDuration(text)
	*v = secondsValue(d)
	return err
}

func (v *secondsValue) String() string {
	if *v == 0 {
		return ""
	}
	return time.Duration(*v).String()
}

func (*secondsValue) Type() string { return "time" }

func (v secondsValue) seconds() measurement.Seconds {
	return measurement.SecondsOf(time.Duration(v))
}

// rateValue is a rate in bits per second: "1G" as for iperf3, or "1Gbit".
type rateValue float64

func (v *rateValue) Set(text string) error {
	if number, power, ok := withLetter(text); ok {
		*v = rateValue(number * math.Pow(1000, power))
		if *v > experiment.MaxRateBitsPerSecond {
			return fmt.Errorf("rate %q is too large; write at most 1T", text)
		}
		return nil
	}
	rate, err := experiment.ParseRate(text)
	*v = rateValue(rate)
	return err
}

func (v *rateValue) String() string {
	if *v == 0 {
		return ""
	}
	return experiment.FormatRate(float64(*v))
}

func (*rateValue) Type() string { return "rate" }

// sizeValue is a number of bytes: "64K" is 64 × 1024 as for iperf3, "64kB" is
// 64 000.
type sizeValue int64

func (v *sizeValue) Set(text string) error {
	if number, power, ok := withLetter(text); ok {
		bytes := number * math.Pow(1024, power)
		if bytes > experiment.MaxBytes || bytes != math.Trunc(bytes) {
			return fmt.Errorf("%q is not a whole number of bytes that any test takes", text)
		}
		*v = sizeValue(bytes)
		return nil
	}
	bytes, err := experiment.ParseBytes(text)
	*v = sizeValue(bytes)
	return err
}

func (v *sizeValue) String() string {
	if *v == 0 {
		return ""
	}
	return experiment.FormatBytes(int64(*v))
}

func (*sizeValue) Type() string { return "size" }

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

// switchValue is the position of an offload.
type switchValue measurement.Switch

func (v *switchValue) Set(text string) error {
	switch text {
	case "auto":
		*v = switchValue(measurement.Auto)
	case "on", "off":
		*v = switchValue(text)
	default:
		return fmt.Errorf("it is on, off or auto, not %q", text)
	}
	return nil
}

func (v *switchValue) String() string {
	if *v == switchValue(measurement.Auto) {
		return "auto"
	}
	return string(*v)
}

func (*switchValue) Type() string { return "on|off|auto" }

// fractionValue is a share: "1%" or "0.01".
type fractionValue float64

func (v *fractionValue) Set(text string) error {
	share, err := experiment.ParseFraction(text)
	*v = fractionValue(share)
	return err
}

func (v *fractionValue) String() string {
	if *v == 0 {
		return ""
	}
	return experiment.FormatFraction(float64(*v))
}

func (*fractionValue) Type() string { return "share" }

// dscpValue is a differentiated services code point: a number or a name.
type dscpValue int

// dscpNames are the code points with names: RFC 2474 (CS), RFC 2597 (AF), RFC
// 3246 (EF), RFC 5865 (VA), RFC 8622 (LE).
func dscpNames() map[string]int {
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

func (v *dscpValue) Set(text string) error {
	if point, ok := dscpNames()[strings.ToUpper(text)]; ok {
		*v = dscpValue(point)
		return nil
	}
	n, err := strconv.ParseInt(text, 0, 0)
	if err != nil || n < 0 || n > 63 {
		return fmt.Errorf("%q is not a code point: a number from 0 to 63, or a name such as EF, AF41, CS1 or LE", text)
	}
	*v = dscpValue(n)
	return nil
}

func (v *dscpValue) String() string {
	if *v == 0 {
		return ""
	}
	return strconv.Itoa(int(*v))
}

func (*dscpValue) Type() string { return "dscp" }

// tosValue is the whole byte of which the upper six bits are the code point.
type tosValue struct{ dscp *dscpValue }

func (v tosValue) Set(text string) error {
	n, err := strconv.ParseInt(text, 0, 0)
	if err != nil || n < 0 || n > 255 {
		return fmt.Errorf("%q is not a byte: write 0 to 255, 0x.. or 0.., or use --dscp", text)
	}
	if n&3 != 0 {
		return fmt.Errorf("the lower two bits of %q are ECN's (RFC 3168), which the kernel sets; write %#x", text, n&^3)
	}
	*v.dscp = dscpValue(n >> 2)
	return nil
}

func (v tosValue) String() string {
	if v.dscp == nil || *v.dscp == 0 {
		return ""
	}
	return fmt.Sprintf("%#x", int(*v.dscp)<<2)
}

func (tosValue) Type() string { return "byte" }
