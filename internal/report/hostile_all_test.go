package report_test

import (
	"bytes"
	"encoding/csv"
	"reflect"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/report/markdown"
	"github.com/hopbench/hopbench/internal/report/reporttest"
	"github.com/hopbench/hopbench/internal/report/terminal"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
)

// everyText puts text into every text below v, keys of maps included; codes, which
// have a type of their own, keep what they say when they are not among them.
func everyText(v reflect.Value, text string, codes bool) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			everyText(v.Elem(), text, codes)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				everyText(v.Field(i), text, codes)
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.String {
			v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem()))) // a list that was empty, too
		}
		for i := range v.Len() {
			everyText(v.Index(i), text, codes)
		}
	case reflect.Map:
		if v.Type().Key().Kind() != reflect.String || v.Len() == 0 {
			return
		}
		value := reflect.New(v.Type().Elem()).Elem()
		value.Set(v.MapIndex(v.MapKeys()[0]))
		everyText(value, text, codes)
		if !codes && v.Type().Key().PkgPath() != "" {
			return
		}
		v.SetMapIndex(reflect.ValueOf(text).Convert(v.Type().Key()), value)
	case reflect.String:
		if codes || v.Type().PkgPath() == "" {
			v.SetString(text)
		}
	}
}

// harmless holds that nothing of hostile works where text is shown.
func harmless(t *testing.T, medium, text string) {
	t.Helper()
	for _, colour := range []string{"0", "1", "2", "31", "32", "33"} { // the terminal's own
		text = strings.ReplaceAll(text, "\x1b["+colour+"m", "")
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && (r < ' ' || r >= 0x7f && r < 0xa0 || typeset.BidiControl(r)) }); i >= 0 {
		t.Errorf("%s: a control character is shown: %q", medium, text[max(0, i-60):min(len(text), i+20)])
	}
	switch medium {
	case "markdown":
		for _, markup := range []string{"<script", "<img", "</title", "[x](", "(javascript:alert(1))/"} {
			if strings.Contains(text, markup) {
				t.Errorf("%s: %s is markup", medium, markup)
			}
		}
	case "csv", "pairs":
		rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
		testutil.OK(t, err)
		for _, row := range rows {
			for _, cell := range row {
				if strings.HasPrefix(cell, "=") {
					t.Errorf("%s: a spreadsheet runs %q", medium, cell)
				}
			}
		}
	}
}

// A file of a stranger may have anything in any of its texts.
func TestEveryTextIsHarmless(t *testing.T) {
	for name, text := range map[string]string{
		"markup":   hostile,
		"formula":  "=HYPERLINK(\"http://x\")\u009b31m\x7f",
		"scheme":   "javascript:alert(1)",
		"one line": "a\r\nb\u2028c\u0085d",
	} {
		t.Run(name, func(t *testing.T) { everyTextIsHarmless(t, text, true) })
		t.Run(name+" but the codes", func(t *testing.T) { everyTextIsHarmless(t, text, false) })
	}
}

func everyTextIsHarmless(t *testing.T, text string, codes bool) {
	for _, fix := range []func(testing.TB, int) *result.Result{reporttest.Run, toleranced} {
		r := fix(t, 1)
		for _, code := range result.NoteCodes() {
			r.Notes = append(r.Notes, result.Note{Code: code, ByGate: map[string]int{"": 1}, Findings: []result.Exclusion{{}}})
		}
		everyText(reflect.ValueOf(r), text, codes)
		for medium, shown := range renderAll(t, r) {
			if medium == "narrow terminal" && strings.Contains(shown, "\x1b") {
				t.Error("an escape sequence reaches a terminal without colour")
			}
			if medium != "json" { // for programs
				harmless(t, strings.TrimPrefix(medium, "narrow "), shown)
			}
		}
	}
	x, c := indexFixture(t), comparisonFixture(t)
	everyText(reflect.ValueOf(x), text, codes)
	everyText(reflect.ValueOf(c), text, codes)
	var indexMarkdown, indexText, comparisonMarkdown, comparisonText bytes.Buffer
	for _, err := range []error{
		markdown.WriteIndex(&indexMarkdown, x), terminal.WriteIndex(&indexText, x, terminal.Options{Colour: true}),
		markdown.WriteComparison(&comparisonMarkdown, c), terminal.WriteComparison(&comparisonText, c, terminal.Options{Colour: true}),
	} {
		testutil.OK(t, err)
	}
	page := string(withoutOwnScript(indexPageText(t, x)))
	harmless(t, "index", page)
	for _, markup := range []string{"<script", "<img", "javascript:alert(1)/", `href="javascript:`} {
		if strings.Contains(page, markup) {
			t.Errorf("index: the page holds %s", markup)
		}
	}
	harmless(t, "markdown", indexMarkdown.String())
	harmless(t, "index text", indexText.String())
	harmless(t, "markdown", comparisonMarkdown.String())
	harmless(t, "comparison", comparisonText.String())
}
