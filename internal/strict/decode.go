// Package strict reads files that people write, in YAML, into Go types. It
// refuses what it does not understand, naming file, line, column and what would be
// right, all mistakes at once. The types say what may be in a file: their json tags
// are its keys, with omitempty for those that may be left out; their jsonschema tags
// bound values and list words; a generator makes the JSON Schema of the same tags.
package strict

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"

	"github.com/hopbench/hopbench/internal/printable"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/spelling"
)

// MaxFileBytes bounds a file.
const MaxFileBytes = 1 << 20

// maxNesting bounds how deep values may lie in one another. A valid file
// needs five levels.
const maxNesting = 40

// Said is what a file that was decoded says, without its comments.
func Said(text []byte) (said map[string]any, err error) {
	return said, yaml.Unmarshal(text, &said)
}

// Decoder fills the types of a file from YAML nodes and remembers where every
// field was written. It walks the nodes itself, rather than let the library
// decode, so that every mistake of a file is found in one pass and has a
// position, and so that later checks can point at a field.
type Decoder struct {
	*problems
	Document
	text []byte
	top  reflect.Type // of the whole file
	// at maps the address of a decoded field to the node of its value, keyAt
	// to that of its key.
	at, keyAt map[any]*yaml.Node
}

// Document is a kind of file.
type Document struct {
	Format string // its version
	Noun   string // what messages call it: "experiment"
	Top    string // and its top: "the experiment"
	Schema string // the command that prints its JSON Schema, empty if none does
	// Texts are the rules of the kinds of text that such a file has; TextRules are
	// among them.
	Texts map[reflect.Type]Rule
	// Item is how messages call an item of a list, empty for "item 2 of the list". Key
	// is the text of one of the item's keys.
	Item func(list string, index int, key func(string) string) string
	// Renames are keys and values that had another name. A file with an old name is
	// refused with the new one, but for what was Stored by a version that had it.
	Renames []Rename
	Stored  bool
	// Optional says of a stored file that it may lack a key; nil for none.
	Optional func(in reflect.Type, key string) bool
	// Takes says whether a struct takes a key that its type has, given the texts of its
	// other keys, such as its kind; nil for always.
	Takes func(in reflect.Type, key string, text func(key string) string) bool
}

// New returns a decoder of a file's text. File names it in messages.
func New(file string, text []byte, kind Document) *Decoder {
	return &Decoder{
		problems: newProblems(file, text), Document: kind, text: text,
		at: make(map[any]*yaml.Node), keyAt: make(map[any]*yaml.Node),
	}
}

// Decode fills a struct, given by its address, with what could be read. It says
// whether the file could be read at all; Err has the mistakes.
func (d *Decoder) Decode(into any) bool {
	top := d.parse(d.text)
	if top == nil || d.another(top) {
		return false
	}
	whole := reflect.ValueOf(into).Elem()
	d.top = whole.Type()
	d.object(top, whole, d.Top)
	return true
}

// another reports a file of another format of ours, or of another version of it, whose keys
// may all be wrong.
func (d *Decoder) another(top *yaml.Node) bool {
	const prefix = "hopbench."
	kind := func(format string) string {
		name, _, _ := strings.Cut(format, "/")
		return strings.TrimPrefix(name, prefix)
	}
	version := func(format string) string { return strings.TrimPrefix(format, prefix+kind(format)+"/") }
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		if key.Value == "format" && strings.HasPrefix(value.Value, prefix) && spelling.Nearest(kind(value.Value), []string{kind(d.Format)}) == "" {
			d.add(value.Line, value.Column, fmt.Sprintf("this is a file of format %q, not %s", Clip(value.Value), article(d.Noun)), "give a file with format: "+d.Format)
			return true
		}
		if v := version(value.Value); key.Value == "format" && kind(value.Value) == kind(d.Format) && v != version(d.Format) && quantity.IsWhole(v) {
			d.add(value.Line, value.Column, fmt.Sprintf("this is a file of format %q, which this version of hopbench does not read", Clip(value.Value)), "take a version that does, or write the file anew with format: "+d.Format)
			return true
		}
	}
	return false
}

// parse reads the text as one YAML document with a mapping at its top; nil
// says that problems were reported.
func (d *Decoder) parse(text []byte) *yaml.Node {
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
			"write one "+d.Noun+" per file, without ---")
		return nil
	}
	if len(documents) == 0 || len(documents[0].Content) == 0 || documents[0].Content[0].Tag == "!!null" {
		d.add(1, 1, "the file is empty", "start with format: "+d.Format)
		return nil
	}
	top := documents[0].Content[0]
	if top.Kind != yaml.MappingNode {
		d.add(top.Line, top.Column, fmt.Sprintf("the file is %s, not keys with values", kindOf(top)),
			"start with format: "+d.Format)
		return nil
	}
	return top
}

// checkBytes refuses what is no text.
func (d *Decoder) checkBytes(text []byte) bool {
	if len(text) > MaxFileBytes {
		d.lines = nil
		d.add(1, 1, fmt.Sprintf("the file has %d bytes, more than the %d that %s may have", len(text), MaxFileBytes, article(d.Noun)), "")
		return false
	}
	for i, line := range d.lines {
		if fine, _, bad := strings.Cut(strings.ToValidUTF8(line, "\x00"), "\x00"); bad {
			d.add(i+1, utf8.RuneCountInString(fine)+1, "the file is not UTF-8 text", "save it with UTF-8 encoding")
			return false
		}
	}
	return true
}

// syntax reports what the YAML library could not read.
func (d *Decoder) syntax(err error) {
	report := func(e *yaml.LoadError) {
		line, column, message := e.Mark.Line, e.Mark.Column, e.Message
		remedy := ""
		switch {
		case strings.Contains(message, "tab character") || strings.Contains(message, "found character that cannot start any token") && d.tabAt(line):
			message, remedy = "a tab is used for indentation", "indent with spaces"
		case strings.Contains(message, "exceeded max depth"):
			message, remedy = fmt.Sprintf("values are nested more than %d deep", maxNesting), article(d.Noun)+" needs five levels"
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

func (d *Decoder) tabAt(line int) bool {
	return line >= 1 && line <= len(d.lines) && strings.HasPrefix(strings.TrimLeft(d.lines[line-1], " "), "\t")
}

func (d *Decoder) positionOfControl() (line, column int) {
	for i, text := range d.lines {
		for j, r := range []rune(text) {
			if r != '\t' && r != '\r' && unicode.IsControl(r) {
				return i + 1, j + 1
			}
		}
	}
	return 1, 1
}

// meant is what a node says, at its own place: reports point at an alias, and not at what it
// stands for. That aliases cannot blow up follows from the bounds of every list and the fixed
// depth of the types.
func meant(node *yaml.Node) *yaml.Node {
	if node.Kind != yaml.AliasNode || node.Alias == nil {
		return node
	}
	aliased := *node.Alias
	aliased.Line, aliased.Column = node.Line, node.Column
	return &aliased
}

// value decodes a node into v, which is addressable. What names the value in
// messages.
func (d *Decoder) value(node *yaml.Node, v reflect.Value, field reflect.StructField, what string) {
	node = meant(node)
	d.at[v.Addr().Interface()] = node
	if node.Style&yaml.TaggedStyle != 0 {
		d.add(node.Line, node.Column, fmt.Sprintf("%s has the tag %s", what, Clip(node.Tag)), "leave the tag out")
		return
	}
	if mapping, ok := reflect.TypeAssert[Mapping](v); ok {
		d.mapping(node, v, mapping.Entries(), what)
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
		d.scalarText(node, v, field, what)
	case reflect.Int:
		d.integer(node, v, field, what)
	case reflect.Float64:
		d.number(node, v, what)
	case reflect.Bool:
		d.truth(node, v, what)
	}
}

// object decodes a mapping into a struct.
func (d *Decoder) object(node *yaml.Node, v reflect.Value, what string) {
	d.at[v.Addr().Interface()] = node
	if node.Kind != yaml.MappingNode {
		d.add(node.Line, node.Column, fmt.Sprintf("%s is %s, not keys with values", what, kindOf(node)), "")
		return
	}
	keys := KeysOf(v.Type())
	table, known := tableOf(v), slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return key == "-" })
	if table != nil {
		known = append(known, table.Names(v.Type())...)
	}
	taken := sync.OnceValue(func() []string { return d.taken(node, v.Type(), known) }) // a file may have many unknown keys
	seen := make(map[string]*yaml.Node)
	misspelled := make(map[string]bool)
	for i := 0; i+1 < len(node.Content); i += 2 {
		if d.enough() {
			return
		}
		key, value := meant(node.Content[i]), meant(node.Content[i+1])
		if key.Tag == "!!merge" {
			d.add(key.Line, key.Column, "merge keys (<<) are not part of this format", "write the keys out")
			continue
		}
		if key.Kind != yaml.ScalarNode {
			d.add(key.Line, key.Column, fmt.Sprintf("%s has a key that is %s", what, kindOf(key)), "")
			continue
		}
		if r, old := d.renamedIn(v.Type(), key.Value); old {
			if !d.Stored {
				d.add(key.Line, key.Column, fmt.Sprintf("key %q of %s is called %q now", r.Old, what, r.New), d.advice(r, key, value))
			}
			key, value = d.today(r, key, value)
		}
		if first := seen[key.Value]; first != nil {
			d.add(key.Line, key.Column, fmt.Sprintf("key %q is there twice", Clip(key.Value)),
				fmt.Sprintf("the first is at line %d, column %d", first.Line, first.Column))
			continue
		}
		seen[key.Value] = key
		if !slices.Contains(known, key.Value) {
			d.add(key.Line, key.Column, fmt.Sprintf("unknown key %q in %s", Clip(key.Value), what), d.insteadOf(key.Value, known, taken()))
			misspelled[spelling.Nearest(key.Value, known)] = true
			continue
		}
		name := key.Value
		if what != d.Top {
			name += " of " + what
		}
		index := slices.Index(keys, key.Value)
		if index < 0 {
			d.fromTable(key, value, table, name)
			continue
		}
		field := v.Type().Field(index)
		d.keyAt[v.Field(index).Addr().Interface()] = key
		d.value(value, v.Field(index), field, name)
	}
	for i, key := range keys {
		absent := d.Stored && d.Optional != nil && d.Optional(v.Type(), key)
		if key != "-" && seen[key] == nil && !misspelled[key] && !optional(v.Type().Field(i)) && !absent {
			d.add(node.Line, node.Column, fmt.Sprintf("%s lacks %q", what, key), "add "+d.exampleOf(key, v.Type().Field(i)))
		}
	}
}

// list decodes a sequence into a slice.
func (d *Decoder) list(node *yaml.Node, v reflect.Value, field reflect.StructField, what string) {
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
func (d *Decoder) itemName(item *yaml.Node, list string, index int) string {
	if d.Item != nil {
		if name := d.Item(list, index, func(key string) string { return scalarOf(item, key) }); name != "" {
			return name
		}
	}
	return fmt.Sprintf("item %d of %s", index+1, list)
}

// scalarOf is the text of a key of a mapping, clipped for a message.
func scalarOf(node *yaml.Node, key string) string {
	if node.Kind != yaml.MappingNode {
		return ""
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if value := meant(node.Content[i+1]); meant(node.Content[i]).Value == key && value.Kind == yaml.ScalarNode {
			return Clip(value.Value)
		}
	}
	return ""
}

// text decodes a scalar into a string type and checks what its type asks for.
func (d *Decoder) scalarText(node *yaml.Node, v reflect.Value, field reflect.StructField, what string) {
	if !d.scalar(node, what) {
		return
	}
	text := node.Value
	if r, old := d.renamedIn(v.Type(), text); old {
		if !d.Stored {
			d.add(node.Line, node.Column, fmt.Sprintf("%s: %q is called %q now", what, r.Old, r.New), "write "+r.New)
		}
		text = r.New
	}
	rule := d.Texts[v.Type()]
	if choices := d.enumOf(field); len(choices) > 0 {
		if !slices.Contains(choices, text) {
			d.add(node.Line, node.Column, fmt.Sprintf("%s cannot be %q", what, Clip(text)), Instead(text, choices))
			return
		}
	} else if rule.Check != nil {
		if problem := rule.Check(text, node.Tag == "!!str"); problem != nil {
			message := problem.Problem
			if rule.Unquoted {
				message = what + ": " + message
			}
			d.add(node.Line, node.Column, message, problem.Remedy)
			return
		}
	}
	v.SetString(text)
}

func (d *Decoder) integer(node *yaml.Node, v reflect.Value, field reflect.StructField, what string) {
	if !d.scalar(node, what) {
		return
	}
	least, most := bound(field, "minimum"), bound(field, "maximum")
	remedy := fmt.Sprintf("write a whole number from %d to %d", least, most)
	n, err := strconv.Atoi(node.Value)
	if node.Tag != "!!int" || err != nil || !quantity.IsWhole(strings.TrimPrefix(node.Value, "-")) {
		d.add(node.Line, node.Column, fmt.Sprintf("%s is %q, not a whole number", what, Clip(node.Value)), remedy)
		return
	}
	if n < least || n > most {
		d.add(node.Line, node.Column, fmt.Sprintf("%s is %d", what, n), remedy)
		return
	}
	v.SetInt(int64(n))
}

func (d *Decoder) number(node *yaml.Node, v reflect.Value, what string) {
	if !d.scalar(node, what) {
		return
	}
	n, err := strconv.ParseFloat(node.Value, 64)
	if err != nil || !quantity.IsDecimal(node.Value) {
		d.add(node.Line, node.Column, fmt.Sprintf("%s is %q, not a number", what, Clip(node.Value)), "write a number")
		return
	}
	v.SetFloat(n)
}

func (d *Decoder) truth(node *yaml.Node, v reflect.Value, what string) {
	if !d.scalar(node, what) {
		return
	}
	if node.Tag != "!!bool" || node.Value != "true" && node.Value != "false" {
		d.add(node.Line, node.Column, fmt.Sprintf("%s is %q", what, Clip(node.Value)), "write true or false")
		return
	}
	v.SetBool(node.Value == "true")
}

// scalar reports whether the node is a single value that is there.
func (d *Decoder) scalar(node *yaml.Node, what string) bool {
	switch {
	case node.Kind != yaml.ScalarNode:
		d.add(node.Line, node.Column, fmt.Sprintf("%s is %s, not a single value", what, kindOf(node)), "")
	case node.Tag == "!!null":
		d.add(node.Line, node.Column, what+" has no value", "write one or leave the key out")
	default:
		return true
	}
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
		return fmt.Sprintf("the value %q", Clip(node.Value))
	}
	return "nothing"
}

// KeysOf lists the keys of a struct type, by field index.
func KeysOf(t reflect.Type) []string {
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
func (d *Decoder) exampleOf(key string, field reflect.StructField) string {
	if mapping, ok := reflect.TypeAssert[Mapping](reflect.Zero(field.Type)); ok {
		return "it, as in " + key + ": " + mapping.Entries().Example
	}
	if field.Type.Kind() == reflect.Slice {
		return key + ": and a list beneath it"
	}
	examples := append(d.enumOf(field), tagValues(field, "example")...)
	examples = append(examples, d.Texts[field.Type].Example)
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
func (d *Decoder) enumOf(field reflect.StructField) []string {
	if field.Type != nil {
		if rule := d.Texts[field.Type]; len(rule.Enum) > 0 {
			return rule.Enum
		}
	}
	return tagValues(field, "enum")
}

// tagValues lists what the field's jsonschema tag gives for a key.
func tagValues(field reflect.StructField, key string) []string {
	var out []string
	for part := range strings.SplitSeq(field.Tag.Get("jsonschema"), ",") {
		if text, ok := strings.CutPrefix(part, key+"="); ok {
			out = append(out, text)
		}
	}
	return out
}
