package experiment

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"

	"github.com/hopbench/hopbench/internal/printable"
	"github.com/hopbench/hopbench/internal/quantity"
)

// MaxFileBytes bounds an experiment file.
const MaxFileBytes = 1 << 20

// maxNesting bounds how deep values may lie in one another. A valid file
// needs five levels.
const maxNesting = 40

// decoder fills the File types from YAML nodes and remembers where every
// field was written. It walks the nodes itself, rather than let the library
// decode, so that every mistake of a file is found in one pass and has a
// position, and so that later checks can point at a field.
type decoder struct {
	*problems
	document
	// at maps the address of a decoded field to the node of its value, keyAt
	// to that of its key.
	at, keyAt map[any]*yaml.Node
	// stored says that the file is in the folder of a run, and may be of an earlier
	// version: old names are read, and figures without a kind.
	stored bool
}

// document is what messages call a kind of file.
type document struct {
	format string // its version
	noun   string // "experiment"
	top    string // "the experiment"
}

func newDecoder(file string, text []byte, kind document) *decoder {
	return &decoder{
		problems: newProblems(file, text), document: kind,
		at: make(map[any]*yaml.Node), keyAt: make(map[any]*yaml.Node),
	}
}

// parse reads the text as one YAML document with a mapping at its top; nil
// says that problems were reported.
func (d *decoder) parse(text []byte) *yaml.Node {
	if !d.checkBytes(text) {
		return nil
	}
	var documents []yaml.Node
	err := yaml.Load(text, &documents, yaml.WithAllDocuments(),
		yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(maxNesting))))
	if err != nil {
		d.syntax(err)
		return nil
	}
	if len(documents) > 1 {
		second := &documents[1]
		d.add(second.Line, second.Column, "a second document starts here",
			"write one "+d.noun+" per file, without ---")
		return nil
	}
	if len(documents) == 0 || len(documents[0].Content) == 0 || documents[0].Content[0].Tag == "!!null" {
		d.add(1, 1, "the file is empty", "start with format: "+d.format)
		return nil
	}
	top := documents[0].Content[0]
	if top.Kind != yaml.MappingNode {
		d.add(top.Line, top.Column, fmt.Sprintf("the file is %s, not keys with values", kindOf(top)),
			"start with format: "+d.format)
		return nil
	}
	return top
}

// checkBytes refuses what is no text.
func (d *decoder) checkBytes(text []byte) bool {
	if len(text) > MaxFileBytes {
		d.lines = nil
		d.add(1, 1, fmt.Sprintf("the file has %d bytes, more than the %d that an experiment may have", len(text), MaxFileBytes), "")
		return false
	}
	for i, line := range d.lines {
		if utf8.ValidString(line) && !strings.ContainsRune(line, 0) {
			continue
		}
		column := 1
		for rest := line; rest != ""; column++ {
			r, size := utf8.DecodeRuneInString(rest)
			if r == 0 || r == utf8.RuneError && size == 1 {
				break
			}
			rest = rest[size:]
		}
		d.add(i+1, column, "the file is not UTF-8 text", "save it with UTF-8 encoding")
		return false
	}
	return true
}

// syntax reports what the YAML library could not read.
func (d *decoder) syntax(err error) {
	report := func(e *yaml.LoadError) {
		line, column, message := e.Mark.Line, e.Mark.Column, e.Message
		remedy := ""
		switch {
		case strings.Contains(message, "tab character") || strings.Contains(message, "found character that cannot start any token") && d.tabAt(line):
			message, remedy = "a tab is used for indentation", "indent with spaces"
		case strings.Contains(message, "exceeded max depth"):
			message, remedy = fmt.Sprintf("values are nested more than %d deep", maxNesting), "an experiment needs five levels"
		case strings.Contains(message, "unexpected end of stream") && e.ContextMark.Line > 0:
			line, column = e.ContextMark.Line, e.ContextMark.Column
			message, remedy = "what starts here never ends", "close the quote or bracket"
		case strings.Contains(message, "mapping values are not allowed"):
			remedy = "quote text that contains a colon and a space, and check the indentation"
		case strings.Contains(message, "unknown anchor"):
			remedy = "quote text that starts with *"
		case line == 0 && strings.Contains(message, "control characters"):
			line, column = d.positionOfControl()
			message = "control characters are not allowed"
		}
		if e.ContextMsg != "" && e.ContextMark.Line > 0 && remedy == "" {
			message += fmt.Sprintf(" (%s that starts at line %d, column %d)", e.ContextMsg, e.ContextMark.Line, e.ContextMark.Column)
		}
		d.add(line, column, "this is not YAML: "+printable.Cut(message, 200), remedy)
	}
	var many *yaml.LoadErrors
	var one *yaml.LoadError
	switch {
	case errors.As(err, &many) && len(many.Errors) > 0:
		for _, e := range many.Errors {
			report(e)
		}
	case errors.As(err, &one):
		report(one)
	default:
		d.add(1, 1, "this is not YAML: "+printable.Cut(err.Error(), 200), "")
	}
}

func (d *decoder) tabAt(line int) bool {
	return line >= 1 && line <= len(d.lines) && strings.HasPrefix(strings.TrimLeft(d.lines[line-1], " "), "\t")
}

func (d *decoder) positionOfControl() (line, column int) {
	for i, text := range d.lines {
		for j, r := range []rune(text) {
			if r != '\t' && r != '\r' && unicode.IsControl(r) {
				return i + 1, j + 1
			}
		}
	}
	return 1, 1
}

// value decodes a node into v, which is addressable. What names the value in
// messages.
func (d *decoder) value(node *yaml.Node, v reflect.Value, field reflect.StructField, what string) {
	d.at[v.Addr().Interface()] = node
	if node.Kind == yaml.AliasNode && node.Alias != nil {
		// Reports point at the alias. That aliases cannot blow up follows from
		// the bounds of every list and the fixed depth of the types.
		aliased := *node.Alias
		aliased.Line, aliased.Column = node.Line, node.Column
		node = &aliased
	}
	if node.Style&yaml.TaggedStyle != 0 {
		d.add(node.Line, node.Column, fmt.Sprintf("%s has the tag %s", what, clip(node.Tag)), "leave the tag out")
		return
	}
	if matters, ok := v.Addr().Interface().(*FileMatters); ok {
		d.margins(node, matters, what)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.object(node, v.Elem(), what)
	case reflect.Struct:
		d.object(node, v, what)
	case reflect.Slice:
		d.list(node, v, field, what)
	case reflect.String:
		d.text(node, v, field, what)
	case reflect.Int:
		d.integer(node, v, field, what)
	case reflect.Float64:
		d.number(node, v, what)
	case reflect.Bool:
		d.truth(node, v, what)
	}
}

// object decodes a mapping into a struct.
func (d *decoder) object(node *yaml.Node, v reflect.Value, what string) {
	d.at[v.Addr().Interface()] = node
	if node.Kind != yaml.MappingNode {
		d.add(node.Line, node.Column, fmt.Sprintf("%s is %s, not keys with values", what, kindOf(node)), "")
		return
	}
	keys := keysOf(v.Type())
	options, known := optionsOf(v), slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return key == "-" })
	for _, o := range optionsIn(v.Type()) {
		known = append(known, o.Name)
	}
	seen := make(map[string]*yaml.Node)
	misspelled := make(map[string]bool)
	for i := 0; i+1 < len(node.Content); i += 2 {
		if d.enough() {
			return
		}
		key, value := node.Content[i], node.Content[i+1]
		if key.Tag == "!!merge" {
			d.add(key.Line, key.Column, "merge keys (<<) are not part of this format", "write the keys out")
			continue
		}
		if key.Kind != yaml.ScalarNode {
			d.add(key.Line, key.Column, fmt.Sprintf("%s has a key that is %s", what, kindOf(key)), "")
			continue
		}
		if r, old := renamedIn(v.Type(), key.Value); old {
			if !d.stored {
				d.add(key.Line, key.Column, fmt.Sprintf("key %q of %s is called %q now", r.old, what, r.new), r.advice(key, value))
			}
			key, value = r.today(key, value)
		}
		if first := seen[key.Value]; first != nil {
			d.add(key.Line, key.Column, fmt.Sprintf("key %q is there twice", clip(key.Value)),
				fmt.Sprintf("the first is at line %d, column %d", first.Line, first.Column))
			continue
		}
		seen[key.Value] = key
		if !slices.Contains(known, key.Value) {
			d.add(key.Line, key.Column, fmt.Sprintf("unknown key %q in %s", clip(key.Value), what), instead(key.Value, known))
			misspelled[nearest(key.Value, known)] = true
			continue
		}
		name := key.Value
		if what != d.top {
			name += " of " + what
		}
		index := indexOf(keys, key.Value)
		if index < 0 {
			d.option(key, value, options, name)
			continue
		}
		field := v.Type().Field(index)
		d.keyAt[v.Field(index).Addr().Interface()] = key
		d.value(value, v.Field(index), field, name)
	}
	for i, key := range keys {
		unkind := d.stored && key == "kind" && v.Type() == reflect.TypeFor[FileFigure]()
		if key != "-" && seen[key] == nil && !misspelled[key] && !optional(v.Type().Field(i)) && !unkind {
			d.add(node.Line, node.Column, fmt.Sprintf("%s lacks %q", what, key), "add "+exampleOf(key, v.Type().Field(i)))
		}
	}
}

// list decodes a sequence into a slice.
func (d *decoder) list(node *yaml.Node, v reflect.Value, field reflect.StructField, what string) {
	if node.Kind != yaml.SequenceNode {
		d.add(node.Line, node.Column, fmt.Sprintf("%s is %s, not a list", what, kindOf(node)), "start each item with -")
		return
	}
	items := node.Content
	if least := bound(field, "minItems"); len(items) < least {
		d.add(node.Line, node.Column, fmt.Sprintf("%s has %s", what, quantity.Count(len(items), "item")),
			fmt.Sprintf("list at least %d", least))
	}
	if most := bound(field, "maxItems"); len(items) > most {
		d.add(items[most].Line, items[most].Column, fmt.Sprintf("%s has %s", what, quantity.Count(len(items), "item")),
			fmt.Sprintf("list at most %d", most))
		items = items[:most]
	}
	// Made once at its full length: the addresses of its items are the keys of
	// d.at.
	v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
	for i, item := range items {
		d.value(item, v.Index(i), reflect.StructField{}, d.itemName(item, what, i))
	}
}

// itemName is how messages call an item: `path "direct"` or `item 2 of paths`.
func (d *decoder) itemName(item *yaml.Node, list string, index int) string {
	singular := map[string]string{"endpoints": "endpoint", "paths": "path", "tests": "test", "studies": "study", "metrics": "metric"}[list]
	switch kind, owner, _ := strings.Cut(list, " of "); kind {
	case "hops":
		return fmt.Sprintf("hop %d of %s", index+1, owner)
	case "contrasts":
		return fmt.Sprintf("contrast %d", index+1)
	case "figures":
		if strings.HasPrefix(owner, "setting ") {
			return fmt.Sprintf("figure %d of %s", index+1, owner)
		}
		return fmt.Sprintf("figure %d", index+1)
	case "settings":
		if id := scalarOf(item, "id"); id != "" {
			return fmt.Sprintf("setting %q", id)
		}
	}
	if name := scalarOf(item, "name"); singular != "" && name != "" {
		return fmt.Sprintf("%s %q", singular, name)
	}
	return fmt.Sprintf("item %d of %s", index+1, list)
}

// scalarOf is the text of a key of a mapping, clipped for a message.
func scalarOf(node *yaml.Node, key string) string {
	if node.Kind != yaml.MappingNode {
		return ""
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == key && node.Content[i+1].Kind == yaml.ScalarNode {
			return clip(node.Content[i+1].Value)
		}
	}
	return ""
}

// text decodes a scalar into a string type and checks what its type asks for.
func (d *decoder) text(node *yaml.Node, v reflect.Value, field reflect.StructField, what string) {
	if !d.scalar(node, what) {
		return
	}
	text := node.Value
	if r, old := renamedIn(v.Type(), text); old {
		if !d.stored {
			d.add(node.Line, node.Column, fmt.Sprintf("%s: %q is called %q now", what, r.old, r.new), "write "+r.new)
		}
		text = r.new
	}
	if choices := enumOf(field); len(choices) > 0 {
		if indexOf(choices, text) < 0 {
			d.add(node.Line, node.Column, fmt.Sprintf("%s cannot be %q", what, clip(text)), instead(text, choices))
			return
		}
		v.SetString(text)
		return
	}
	if problem := checkText(v.Type(), text, node.Tag == "!!str"); problem != nil {
		message := problem.Problem
		if v.Type() == reflect.TypeFor[LineText]() || v.Type() == reflect.TypeFor[ProseText]() {
			message = what + ": " + message
		}
		d.add(node.Line, node.Column, message, problem.Remedy)
		return
	}
	v.SetString(text)
}

// checkText checks text by its kind. isString is false for what YAML takes for
// a number or a truth value.
func checkText(kind reflect.Type, text string, isString bool) *quantity.UnitError {
	var err error
	switch kind {
	case reflect.TypeFor[NameText]():
		return checkName(text, isString)
	case reflect.TypeFor[AlgorithmText]():
		if !isString || !regexp.MustCompile(algorithmPattern).MatchString(text) {
			return unitError(fmt.Sprintf("%q is no name of a congestion control", clip(text)), "write one such as cubic or bbr")
		}
	case reflect.TypeFor[LineText]():
		return checkProse(text, maxLine, false, isString)
	case reflect.TypeFor[ProseText]():
		return checkProse(text, maxProse, true, isString)
	case reflect.TypeFor[RateText]():
		_, err = quantity.ParseRate(text)
	case reflect.TypeFor[TimeText]():
		_, err = quantity.ParseDuration(text)
	case reflect.TypeFor[SizeText]():
		_, err = quantity.ParseBytes(text)
	case reflect.TypeFor[FractionText]():
		_, err = quantity.ParseFraction(text)
	case reflect.TypeFor[ScaleText]():
		_, err = quantity.ParseScale(text)
	}
	var wrong *quantity.UnitError
	if errors.As(err, &wrong) {
		return wrong
	}
	if err != nil {
		return unitError(err.Error(), "")
	}
	return nil
}

func unitError(problem, remedy string) *quantity.UnitError {
	return &quantity.UnitError{Problem: problem, Remedy: remedy}
}

func checkName(text string, isString bool) *quantity.UnitError {
	if len(text) <= maxName && regexp.MustCompile(namePattern).MatchString(text) {
		if !isString {
			return notText(text)
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
	return unitError(fmt.Sprintf("%q is no name", clip(text)), remedy)
}

func checkProse(text string, longest int, lines, isString bool) *quantity.UnitError {
	switch {
	case !isString:
		return notText(text)
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

// notText is for what YAML reads as a number or a truth value.
func notText(text string) *quantity.UnitError {
	return unitError(fmt.Sprintf("%s is not text to YAML", clip(text)), fmt.Sprintf("write it in quotes: %q", clip(text)))
}

// showable reports whether a terminal shows r rather than acts on it.
func showable(r rune) bool { return unicode.IsPrint(r) || unicode.Is(unicode.Zs, r) }

func (d *decoder) integer(node *yaml.Node, v reflect.Value, field reflect.StructField, what string) {
	if !d.scalar(node, what) {
		return
	}
	least, most := bound(field, "minimum"), bound(field, "maximum")
	remedy := fmt.Sprintf("write a whole number from %d to %d", least, most)
	n, err := strconv.Atoi(node.Value)
	if node.Tag != "!!int" || err != nil || !quantity.IsWhole(strings.TrimPrefix(node.Value, "-")) {
		d.add(node.Line, node.Column, fmt.Sprintf("%s is %q, not a whole number", what, clip(node.Value)), remedy)
		return
	}
	if n < least || n > most {
		d.add(node.Line, node.Column, fmt.Sprintf("%s is %d", what, n), remedy)
		return
	}
	v.SetInt(int64(n))
}

func (d *decoder) number(node *yaml.Node, v reflect.Value, what string) {
	if !d.scalar(node, what) {
		return
	}
	n, err := strconv.ParseFloat(node.Value, 64)
	if err != nil || !quantity.IsDecimal(node.Value) {
		d.add(node.Line, node.Column, fmt.Sprintf("%s is %q, not a number", what, clip(node.Value)), "write a number")
		return
	}
	v.SetFloat(n)
}

func (d *decoder) truth(node *yaml.Node, v reflect.Value, what string) {
	if !d.scalar(node, what) {
		return
	}
	if node.Tag != "!!bool" || node.Value != "true" && node.Value != "false" {
		d.add(node.Line, node.Column, fmt.Sprintf("%s is %q", what, clip(node.Value)), "write true or false")
		return
	}
	v.SetBool(node.Value == "true")
}

// scalar reports whether the node is a single value that is there.
func (d *decoder) scalar(node *yaml.Node, what string) bool {
	if node.Kind == yaml.ScalarNode && node.Tag != "!!null" {
		return true
	}
	if node.Kind == yaml.ScalarNode {
		d.add(node.Line, node.Column, what+" has no value", "write one or leave the key out")
		return false
	}
	d.add(node.Line, node.Column, fmt.Sprintf("%s is %s, not a single value", what, kindOf(node)), "")
	return false
}

func kindOf(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "keys with values"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		if node.Tag == "!!null" {
			return "empty"
		}
		return fmt.Sprintf("the value %q", clip(node.Value))
	}
	return "nothing"
}

// keysOf lists the keys of a struct type, by field index.
func keysOf(t reflect.Type) []string {
	keys := make([]string, t.NumField())
	for i := range keys {
		keys[i], _, _ = strings.Cut(t.Field(i).Tag.Get("json"), ",")
	}
	return keys
}

func optional(field reflect.StructField) bool {
	return strings.HasSuffix(field.Tag.Get("json"), ",omitempty")
}

// exampleOf shows how a missing key could be written.
func exampleOf(key string, field reflect.StructField) string {
	if field.Type.Kind() == reflect.Slice {
		return key + ": and a list beneath it"
	}
	examples := append(enumOf(field), tagValues(field, "example")...)
	examples = append(examples, TextRules()[field.Type].Example)
	if examples[0] == "" {
		return "it"
	}
	return "it, as in " + key + ": " + examples[0]
}

// bound reads a limit from the field's jsonschema tag; without one nothing is
// bounded from below, and everything from above.
func bound(field reflect.StructField, key string) int {
	for _, text := range tagValues(field, key) {
		if n, err := strconv.Atoi(text); err == nil {
			return n
		}
	}
	if strings.HasPrefix(key, "max") {
		return 1000
	}
	return 0
}

// enumOf lists the only values of a field: those of its type, or of its tag.
func enumOf(field reflect.StructField) []string {
	if field.Type != nil {
		if rule := TextRules()[field.Type]; len(rule.Enum) > 0 {
			return rule.Enum
		}
	}
	return tagValues(field, "enum")
}

// tagValues lists what the field's jsonschema tag gives for a key.
func tagValues(field reflect.StructField, key string) []string {
	var out []string
	for _, part := range strings.Split(field.Tag.Get("jsonschema"), ",") {
		if text, ok := strings.CutPrefix(part, key+"="); ok {
			out = append(out, text)
		}
	}
	return out
}

func indexOf(list []string, word string) int {
	for i, w := range list {
		if w == word {
			return i
		}
	}
	return -1
}
