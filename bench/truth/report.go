package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"unicode/utf8"
)

// report is what a part found.
type report struct {
	text   []string // paragraphs
	tables []table
}

type table struct {
	head []string
	rows [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// write writes the report in Markdown.
func (r report) write(w io.Writer) {
	for _, paragraph := range r.text {
		fmt.Fprintf(w, "%s\n\n", paragraph)
	}
	for _, t := range r.tables {
		t.write(w)
		fmt.Fprintln(w)
	}
}

func (t table) write(w io.Writer) {
	widths := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	line := func(cells []string) {
		for i, cell := range cells {
			fmt.Fprintf(w, "| %s%s ", cell, strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)))
		}
		fmt.Fprintln(w, "|")
	}
	line(t.head)
	for _, width := range widths {
		fmt.Fprintf(w, "|-%s-", strings.Repeat("-", width))
	}
	fmt.Fprintln(w, "|")
	for _, row := range t.rows {
		line(row)
	}
}

// counts is "17 costs, 3 not-resolved", the most first.
func counts[K ~string](n map[K]int) string {
	keys := slices.SortedFunc(maps.Keys(n), func(a, b K) int { return cmp.Or(cmp.Compare(n[b], n[a]), cmp.Compare(a, b)) })
	words := make([]string, len(keys))
	for i, k := range keys {
		words[i] = fmt.Sprintf("%d %s", n[k], k)
	}
	return strings.Join(words, ", ")
}

func reached(ok bool) string {
	if ok {
		return "reached"
	}
	return "missed"
}

// update puts text between the markers of a part in a file.
func update(file, part, text string) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read what is to be updated: %w", err)
	}
	begin, end := fmt.Sprintf("<!-- %s: written by make bench-truth -->\n", part), fmt.Sprintf("<!-- end of %s -->", part)
	before, rest, found := strings.Cut(string(old), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return fmt.Errorf("%s has no place for part %s, between %q and %q", file, part, strings.TrimSpace(begin), end)
	}
	return os.WriteFile(file, []byte(before+begin+text+end+after), 0o644)
}
