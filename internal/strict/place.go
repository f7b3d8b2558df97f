package strict

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/hopbench/hopbench/internal/quantity"
)

// This file is for the checks that the types of a file cannot say. A field is given
// by its address, a key of a table by a KeyOf. A field whose decoding failed is zero
// and was reported; checks pass over it.

// Wrong reports a problem at the value of a field.
func (d *Decoder) Wrong(field any, remedy, format string, args ...any) {
	d.report(d.at[field], remedy, format, args...)
}

// Misplaced reports a problem at the key of a field.
func (d *Decoder) Misplaced(field any, remedy, format string, args ...any) {
	d.report(d.keyAt[field], remedy, format, args...)
}

func (d *Decoder) report(node *yaml.Node, remedy, format string, args ...any) {
	line, column := 1, 1
	if node != nil {
		line, column = node.Line, node.Column
	}
	d.add(line, column, fmt.Sprintf(format, args...), remedy)
}

// Written says whether the file has the field.
func (d *Decoder) Written(field any) bool { return d.at[field] != nil }

// Line is the line of a field's value, 0 where the file does not have it.
func (d *Decoder) Line(field any) int {
	if node := d.at[field]; node != nil {
		return node.Line
	}
	return 0
}

// Scalar is the text of a field as the file has it, empty for one that it does not
// have or that is no single value.
func (d *Decoder) Scalar(field any) string {
	if node := d.at[field]; node != nil {
		return node.Value
	}
	return ""
}

// Between reads a time and checks its bounds. Without one it is otherwise.
func (d *Decoder) Between(field *TimeText, otherwise, least, most time.Duration) time.Duration {
	if *field == "" {
		return otherwise
	}
	t := Parsed(quantity.ParseDuration, *field)
	if t < least || t > most {
		d.Wrong(field, "write a time from "+quantity.FormatDuration(least)+" to "+quantity.FormatDuration(most), "time %q is out of bounds", *field)
	}
	return t
}

// Found counts the problems so far.
func (d *Decoder) Found() int { return len(d.found) }

// Unique checks that no two of the names are the same.
func (d *Decoder) Unique(what string, names []*NameText) {
	first := make(map[NameText]*NameText)
	for _, name := range names {
		if *name == "" {
			continue
		}
		if other := first[*name]; other != nil {
			d.Wrong(name, fmt.Sprintf("rename it; the first is at line %d", d.Line(other)), "a second %s is named %q", what, *name)
			continue
		}
		first[*name] = name
	}
}

// Refers checks that a field names one of the names. Where none could be read
// there is nothing to compare it with.
func (d *Decoder) Refers(field *NameText, key, what string, names []*NameText) {
	if *field == "" {
		return
	}
	var known []string
	for _, name := range names {
		if *name == *field {
			return
		}
		if *name != "" {
			known = append(known, string(*name))
		}
	}
	if len(known) == 0 {
		return
	}
	d.Wrong(field, Instead(string(*field), known), "%s %q names no %s", key, *field, what)
}
