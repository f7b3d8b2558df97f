package idps

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hopbench/hopbench/internal/printable"
)

// informative are options that change nothing of what a rule matches.
var informative = []string{"reference", "metadata", "priority", "target", "rawbytes"}

// options reads what is between the parentheses.
func (p *parser) options(body string) {
	o := optionReader{parser: p, rule: p.rule}
	for body = strings.TrimSpace(body); body != ""; body = strings.TrimSpace(body) {
		option, rest, closed := cutOption(body)
		if !closed {
			p.wrong("the option %q does not end with a semicolon", shorten(option))
			return
		}
		body = rest
		name, value, valued := strings.Cut(option, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !isWord(name) {
			p.wrong("%q is no option", shorten(option))
			return
		}
		o.option(name, value, valued)
	}
	o.finish()
}

// cutOption splits at the first semicolon that is neither quoted nor escaped.
func cutOption(text string) (option, rest string, closed bool) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == ';' && !quoted:
			return text[:i], text[i+1:], true
		}
	}
	return text, "", false
}

// shorten cuts text that is quoted in a message.
func shorten(text string) string { return printable.Cut(text, 40) }

// optionReader collects the options of one rule.
type optionReader struct {
	*parser
	rule *Rule
	// modified are the modifiers that the last content has.
	modified []string
	chosen   int // the step with fast_pattern, counted from 1
	hasSID   bool
}

func (o *optionReader) option(name, value string, valued bool) {
	r := o.rule
	switch name {
	case "msg":
		r.Message = o.text(name, value)
	case "sid":
		r.SID, o.hasSID = uint32(o.number(name, value, 1, 1<<32-1)), true
	case "gid":
		r.GID = uint32(o.number(name, value, 1, 1<<32-1))
	case "rev":
		r.Revision = uint32(o.number(name, value, 0, 1<<32-1))
	case "classtype":
		r.Class = value
	case "content":
		o.content(value)
	case "pcre":
		o.pcre(value)
	case "nocase", "fast_pattern", "offset", "depth", "distance", "within", "startswith":
		o.modifier(name, value, valued)
	case "flow":
		o.flow(value)
	case "flowbits":
		o.flowbits(value)
	case "noalert":
		r.silent = true
	default:
		if !slices.Contains(informative, name) {
			o.without(name)
		}
	}
}

// text is a value in quotes; they may be missing around a message.
func (o *optionReader) text(name, value string) string {
	inner, opened := strings.CutPrefix(value, `"`)
	inner, closed := strings.CutSuffix(inner, `"`)
	if opened != closed || value == `"` || value == "" {
		o.wrong("%s wants a text in quotes, not %s", name, shorten(value))
		return ""
	}
	return strings.NewReplacer(`\"`, `"`, `\;`, `;`, `\:`, `:`, `\\`, `\`).Replace(inner)
}

func (o *optionReader) number(name, value string, least, most int64) int64 {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < least || n > most {
		o.wrong("%s is %q, not a number from %d to %d", name, shorten(value), least, most)
		return 0
	}
	return n
}

// quoted takes an optional ! and the quotes off.
func (o *optionReader) quoted(name, value string) (inner string, negated, ok bool) {
	value, negated = strings.CutPrefix(value, "!")
	value = strings.TrimSpace(value)
	if len(value) < 2 || value[0] != '"' || value[len(value)-1] != '"' {
		o.wrong("%s wants a value in quotes, not %s", name, shorten(value))
		return "", false, false
	}
	return value[1 : len(value)-1], negated, true
}

func (o *optionReader) content(value string) {
	inner, negated, ok := o.quoted("content", value)
	if !ok {
		return
	}
	pattern, err := decodeContent(inner)
	if err != nil {
		o.wrong("content %s: %v", shorten(value), err)
		return
	}
	o.add(step{content: pattern, negated: negated})
}

func (o *optionReader) add(s step) {
	if len(o.rule.steps) == maxSteps {
		o.wrong("more than %d contents and expressions", maxSteps)
		return
	}
	o.rule.steps = append(o.rule.steps, s)
	o.modified = nil
}

// decodeContent reads text in which |0d 0a| is bytes in hexadecimal and a
// backslash takes the next character as it stands.
func decodeContent(text string) ([]byte, error) {
	var pattern []byte
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '\\':
			i++
			if i == len(text) {
				return nil, fmt.Errorf("ends with a backslash")
			}
			pattern = append(pattern, text[i])
		case '|':
			end := strings.IndexByte(text[i+1:], '|')
			if end < 0 {
				return nil, fmt.Errorf("a | opens bytes in hexadecimal that none closes")
			}
			digits := strings.ReplaceAll(text[i+1:i+1+end], " ", "")
			some, err := hex.DecodeString(digits)
			if err != nil || len(some) == 0 {
				return nil, fmt.Errorf("|%s| is not bytes in hexadecimal", text[i+1:i+1+end])
			}
			pattern = append(pattern, some...)
			i += 1 + end
		case '"':
			return nil, fmt.Errorf("has a quote within; write |22|")
		default:
			pattern = append(pattern, c)
		}
	}
	if len(pattern) == 0 || len(pattern) > maxContent {
		return nil, fmt.Errorf("has %d bytes, not 1 to %d", len(pattern), maxContent)
	}
	return pattern, nil
}

// modifier changes the content before it.
func (o *optionReader) modifier(name, value string, valued bool) {
	if len(o.rule.steps) == 0 || o.rule.steps[len(o.rule.steps)-1].content == nil {
		o.wrong("%s stands behind no content", name)
		return
	}
	if slices.Contains(o.modified, name) {
		o.wrong("%s is there twice for one content", name)
		return
	}
	o.modified = append(o.modified, name)
	s := &o.rule.steps[len(o.rule.steps)-1]
	switch name {
	case "nocase":
		s.folded = folded(s.content)
	case "fast_pattern":
		switch {
		case valued && value != "only":
			o.without("fast_pattern:" + shorten(value))
		case s.negated:
			o.wrong("fast_pattern: a negated content cannot be looked for")
		case o.chosen > 0:
			o.wrong("fast_pattern is there for two contents")
		}
		o.chosen = len(o.rule.steps)
	case "offset":
		s.from = int(o.number(name, value, 0, maxOffset))
	case "depth":
		s.span, s.bounded = int(o.number(name, value, int64(len(s.content)), maxOffset)), true
	case "startswith":
		s.span, s.bounded = len(s.content), true
	case "distance":
		s.relative, s.from = true, int(o.number(name, value, -maxOffset, maxOffset))
	case "within":
		s.relative, s.bounded, s.span = true, true, int(o.number(name, value, int64(len(s.content)), maxOffset))
	}
	o.together(len(o.rule.steps) - 1)
}

// together refuses modifiers of one content that contradict each other.
func (o *optionReader) together(index int) {
	absolute := slices.ContainsFunc(o.modified, func(m string) bool { return m == "offset" || m == "depth" || m == "startswith" })
	switch {
	case absolute && o.rule.steps[index].relative:
		o.wrong("one content is placed both from the start (offset, depth, startswith) and behind the one before (distance, within)")
	case index == 0 && o.rule.steps[index].relative:
		o.wrong("the first content has none before it to be relative to")
	case slices.Contains(o.modified, "startswith") && (slices.Contains(o.modified, "offset") || slices.Contains(o.modified, "depth")):
		o.wrong("startswith says all that offset and depth could")
	}
}

func (o *optionReader) flow(value string) {
	f := &o.rule.flow
	for word := range strings.SplitSeq(value, ",") {
		switch word = strings.TrimSpace(word); word {
		case "established":
			f.established = true
		case "not_established":
			f.notEstablished = true
		case "to_server", "from_client":
			f.toServer = true
		case "to_client", "from_server":
			f.toClient = true
		case "stateless", "only_stream":
		default:
			if !isWord(word) {
				o.wrong("flow: %q is no word", shorten(word))
				continue
			}
			o.without("flow:" + word)
		}
	}
	if f.established && f.notEstablished || f.toServer && f.toClient {
		o.wrong("flow:%s contradicts itself", shorten(value))
	}
}

func (o *optionReader) flowbits(value string) {
	word, name, named := strings.Cut(value, ",")
	word, name = strings.TrimSpace(word), strings.TrimSpace(name)
	if word == "noalert" && !named {
		o.rule.silent = true
		return
	}
	verbs := map[string]bitVerb{"set": bitSet, "unset": bitUnset, "toggle": bitToggle, "isset": bitIsSet, "isnotset": bitIsNotSet}
	verb, known := verbs[word]
	switch {
	case !known && isWord(word):
		o.without("flowbits:" + word)
		return
	case !known || name == "":
		o.wrong("flowbits:%s is none of set, unset, toggle, isset and isnotset with a name", shorten(value))
		return
	case strings.Contains(name, "|"):
		o.without("flowbits with |")
		return
	}
	bit, there := o.bits[name]
	if !there {
		bit = len(o.bits)
		if bit == maxFlowbits {
			o.wrong("more than %d flowbits in one file", maxFlowbits)
			return
		}
		o.bits[name] = bit
	}
	o.rule.bits = append(o.rule.bits, bitOperation{verb: verb, bit: bit})
}

// finish checks the rule as a whole and chooses what the automaton looks for.
func (o *optionReader) finish() {
	r := o.rule
	if !o.hasSID {
		o.wrong("the rule lacks a sid")
	}
	longest := 0
	for i, s := range r.steps {
		if s.content != nil && !s.negated && len(s.content) > longest {
			longest, r.fast = len(s.content), i
		}
	}
	if o.chosen > 0 {
		r.fast = o.chosen - 1
	}
	if r.fast < 0 && len(r.steps) > 0 {
		o.without("no content to look for, only expressions or negated contents")
		return
	}
	if len(r.steps) == 1 {
		s := r.steps[0]
		r.alone = !s.bounded && s.from == 0
	}
}
