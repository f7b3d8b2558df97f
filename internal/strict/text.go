package strict

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hopbench/hopbench/internal/quantity"
)

// The kinds of text that all files have.
type (
	// NameText names something: lower-case letters, digits and hyphens.
	NameText string
	// LineText is one line of text for people.
	LineText string
	// ProseText is text for people, of any number of lines.
	ProseText string
	// RateText is a rate with its unit.
	RateText string
	// TimeText is a time with its unit.
	TimeText string
	// SizeText is a size with its unit.
	SizeText string
	// FractionText is a share, in percent or as a number from 0 to 1.
	FractionText string
	// ScaleText is a scale such as 1:10.
	ScaleText string
)

// Lengths of text.
const (
	maxName  = 40
	maxLine  = 300
	maxProse = 10_000
)

// namePattern is what a NameText looks like. Names become parts of trial ids,
// file names and host names.
const namePattern = `^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`

// Number is the pattern of a number without sign and exponent.
const Number = `[0-9]+(\.[0-9]+)?`

// Rule is how a kind of text looks: to the JSON Schema, and to the decoder.
type Rule struct {
	Pattern   string // empty for text for people
	MaxLength uint64
	Example   string
	// Number says that a plain YAML number is fine too.
	Number bool
	// Enum lists the only values, empty for any.
	Enum []string
	// Check says what is wrong with a text, nil for nothing; nil checks nothing.
	// IsString is false for what YAML takes for a number or a truth value.
	Check func(text string, isString bool) *quantity.UnitError
	// Unquoted says that the check does not quote the text, so that messages begin
	// with its key.
	Unquoted bool
}

// TextRules gives the rules of the kinds of text that all files have.
func TextRules() map[reflect.Type]Rule {
	return map[reflect.Type]Rule{
		reflect.TypeFor[NameText]():     {Pattern: namePattern, MaxLength: maxName, Check: checkName},
		reflect.TypeFor[LineText]():     {MaxLength: maxLine, Check: prose(maxLine, false), Unquoted: true},
		reflect.TypeFor[ProseText]():    {MaxLength: maxProse, Check: prose(maxProse, true), Unquoted: true},
		reflect.TypeFor[RateText]():     {Pattern: `^` + Number + `[kMGT]?bit(/s)?$`, MaxLength: quantity.MaxText, Example: "1.2Gbit", Check: Parses(quantity.ParseRate)},
		reflect.TypeFor[TimeText]():     {Pattern: `^(` + Number + `(ns|us|µs|μs|ms|s|m|h))+$`, MaxLength: quantity.MaxText, Example: "850us", Check: Parses(quantity.ParseDuration)},
		reflect.TypeFor[SizeText]():     {Pattern: `^` + Number + `([kMGT]|[KMGT]i)?B$`, MaxLength: quantity.MaxText, Example: "64kB", Check: Parses(quantity.ParseBytes)},
		reflect.TypeFor[FractionText](): {Pattern: `^` + Number + `%?$`, MaxLength: quantity.MaxText, Example: "1%", Number: true, Check: Parses(quantity.ParseFraction)},
		reflect.TypeFor[ScaleText]():    {Pattern: `^1:` + Number + `$`, MaxLength: quantity.MaxText, Example: "1:10", Check: Parses(quantity.ParseScale)},
	}
}

// Parses is the check that a function can read the text.
func Parses[V any](parse func(string) (V, error)) func(string, bool) *quantity.UnitError {
	return func(text string, _ bool) *quantity.UnitError {
		_, err := parse(text)
		var wrong *quantity.UnitError
		if err == nil || errors.As(err, &wrong) {
			return wrong
		}
		return unitError(err.Error(), "")
	}
}

// Parsed reads text that was checked when it was decoded; what failed then is
// empty now and reads as zero.
func Parsed[V any, T ~string](parse func(string) (V, error), text T) V {
	var zero V
	if text == "" {
		return zero
	}
	value, err := parse(string(text))
	if err != nil {
		return zero
	}
	return value
}

func unitError(problem, remedy string) *quantity.UnitError {
	return &quantity.UnitError{Problem: problem, Remedy: remedy}
}

func checkName(text string, isString bool) *quantity.UnitError {
	if len(text) <= maxName && regexp.MustCompile(namePattern).MatchString(text) {
		if !isString {
			return NotText(text)
		}
		return nil
	}
	var tame strings.Builder
	for _, r := range strings.ToLower(text) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			tame.WriteRune(r)
		case tame.Len() > 0 && !strings.HasSuffix(tame.String(), "-"):
			tame.WriteByte('-')
		}
	}
	remedy := fmt.Sprintf("use up to %d lower-case letters, digits and hyphens", maxName)
	if right := strings.Trim(tame.String(), "-"); right != "" && len(right) <= maxName {
		remedy += ", as in " + right
	}
	return unitError(fmt.Sprintf("%q is no name", Clip(text)), remedy)
}

// prose is the check of text for people, of one line or several.
func prose(longest int, lines bool) func(string, bool) *quantity.UnitError {
	return func(text string, isString bool) *quantity.UnitError {
		return CheckProse(text, longest, lines, isString)
	}
}

// CheckProse checks text for people.
func CheckProse(text string, longest int, lines, isString bool) *quantity.UnitError {
	switch {
	case !isString:
		return NotText(text)
	case strings.TrimSpace(text) == "":
		return unitError("the text is empty", "write something or leave the key out")
	case utf8.RuneCountInString(text) > longest:
		return unitError(fmt.Sprintf("the text has %d characters", utf8.RuneCountInString(text)), fmt.Sprintf("write at most %d", longest))
	}
	for _, r := range text {
		if r == '\n' && !lines {
			return unitError("the text has more than one line", "write it on one line")
		}
		if !showable(r) && r != '\n' {
			return unitError(fmt.Sprintf("the text has the character %U, which cannot be printed", r), "leave it out")
		}
	}
	return nil
}

// NotText is for what YAML reads as a number or a truth value.
func NotText(text string) *quantity.UnitError {
	return unitError(fmt.Sprintf("%s is not text to YAML", Clip(text)), fmt.Sprintf("write it in quotes: %q", Clip(text)))
}

// showable reports whether a terminal shows r rather than acts on it.
func showable(r rune) bool { return unicode.IsPrint(r) || unicode.Is(unicode.Zs, r) }
