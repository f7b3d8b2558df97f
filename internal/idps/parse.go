package idps

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// Bounds of a rule file.
const (
	MaxFileBytes = 4 << 20
	maxLineBytes = 64 << 10
	maxRules     = 1 << 16
	maxSteps     = 64   // contents and expressions of a rule
	maxContent   = 255  // bytes
	maxFlowbits  = 1024 // names in a file
	maxOffset    = 1 << 16
	maxMistakes  = 50 // reported of one file
)

// RuleSet is a rule file that was read.
type RuleSet struct {
	Name  string // of the file
	Rules []*Rule
	// Unsupported are the rules that were not loaded.
	Unsupported []UnsupportedRule

	flowbits int
}

// UnsupportedRule is a rule without mistakes that asks for something that this
// package does not do. It is not loaded: without that part it would match what
// its author did not mean.
type UnsupportedRule struct {
	Line    int // counted from 1
	SID     uint32
	Reasons []string // names of options, or of what else is not supported
}

// UnsupportedReasons says how many rules each reason kept from being loaded.
func (s *RuleSet) UnsupportedReasons() map[string]int {
	count := make(map[string]int)
	for _, u := range s.Unsupported {
		for _, reason := range u.Reasons {
			count[reason]++
		}
	}
	return count
}

// String says in a sentence what was loaded and what was not, and why.
func (s *RuleSet) String() string {
	text := fmt.Sprintf("%s: %d rules loaded", s.Name, len(s.Rules))
	if len(s.Unsupported) == 0 {
		return text
	}
	reasons := s.UnsupportedReasons()
	names := slices.SortedFunc(maps.Keys(reasons), func(a, b string) int {
		return cmp.Or(cmp.Compare(reasons[b], reasons[a]), cmp.Compare(a, b))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s (%d)", name, reasons[name])
	}
	return fmt.Sprintf("%s, %d not, because of what is not supported: %s", text, len(s.Unsupported), strings.Join(names, ", "))
}

// Mistake is something in a rule file that is no rule.
type Mistake struct {
	File    string
	Line    int // counted from 1
	Message string
}

func (m Mistake) Error() string { return fmt.Sprintf("%s:%d: %s", m.File, m.Line, m.Message) }

// Load reads and parses a rule file.
func Load(path string) (set *RuleSet, text []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read rule file: %w", err)
	}
	defer f.Close()
	text, err = io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err != nil {
		return nil, nil, fmt.Errorf("read rule file: %w", err)
	}
	set, err = Parse(path, text)
	return set, text, err
}

// Parse reads rules, one a line; a backslash at the end of a line joins the
// next to it, and a line that begins with # is a comment. Every mistake is
// reported, as joined Mistakes; a file with mistakes gives no rules.
func Parse(name string, text []byte) (*RuleSet, error) {
	if len(text) > MaxFileBytes {
		return nil, fmt.Errorf("rule file %s: longer than %d bytes; leave out the rules that the experiment does not need", name, MaxFileBytes)
	}
	p := parser{set: &RuleSet{Name: name}, bits: make(map[string]int), seen: make(map[[2]uint32]int)}
	number := 0
	for len(text) > 0 && !p.enough() {
		first := number + 1
		var logical []byte
		for joined := true; joined && len(text) > 0; {
			var line []byte
			line, text, _ = bytes.Cut(text, []byte("\n"))
			number++
			line = bytes.TrimRight(line, " \t\r")
			line, joined = bytes.CutSuffix(line, []byte(`\`))
			logical = append(logical, line...)
		}
		p.line(first, string(bytes.TrimSpace(logical)))
	}
	if len(p.mistakes) > 0 {
		return nil, errors.Join(p.mistakes...)
	}
	p.set.flowbits = len(p.bits)
	return p.set, nil
}

// parser reads one file.
type parser struct {
	set      *RuleSet
	mistakes []error
	bits     map[string]int    // flowbits, by name
	seen     map[[2]uint32]int // lines, by group and signature

	// Of the rule in hand.
	number      int
	rule        *Rule
	unsupported []string
}

func (p *parser) enough() bool { return len(p.mistakes) >= maxMistakes }

func (p *parser) wrong(format string, args ...any) {
	if !p.enough() {
		p.mistakes = append(p.mistakes, Mistake{File: p.set.Name, Line: p.number, Message: fmt.Sprintf(format, args...)})
	}
}

// without notes that the rule needs something that is not there.
func (p *parser) without(reason string) {
	if !slices.Contains(p.unsupported, reason) {
		p.unsupported = append(p.unsupported, reason)
	}
}

func (p *parser) line(number int, text string) {
	if text == "" || text[0] == '#' {
		return
	}
	p.number, p.unsupported = number, nil
	p.rule = &Rule{Line: number, GID: 1, Revision: 1, fast: -1}
	if len(text) > maxLineBytes {
		p.wrong("a rule of %d bytes; at most %d", len(text), maxLineBytes)
		return
	}
	header, body, found := strings.Cut(text, "(")
	body, closed := strings.CutSuffix(body, ")")
	if !found || !closed {
		p.wrong("not a rule: ACTION PROTOCOL ADDRESS PORT -> ADDRESS PORT (OPTIONS)")
		return
	}
	before := len(p.mistakes)
	p.header(header)
	p.options(body)
	if len(p.mistakes) > before {
		return
	}
	r := p.rule
	key := [2]uint32{r.GID, r.SID}
	if line, taken := p.seen[key]; taken {
		p.wrong("sid %d is already that of the rule in line %d", r.SID, line)
		return
	}
	p.seen[key] = number
	switch {
	case len(p.unsupported) > 0:
		slices.Sort(p.unsupported)
		p.set.Unsupported = append(p.set.Unsupported, UnsupportedRule{Line: number, SID: r.SID, Reasons: p.unsupported})
	case len(p.set.Rules) == maxRules:
		p.wrong("more than %d rules", maxRules)
	default:
		p.set.Rules = append(p.set.Rules, r)
	}
}

// header reads what is before the options.
func (p *parser) header(text string) {
	fields := headerFields(text)
	if len(fields) != 7 {
		p.wrong("the header has %d parts instead of ACTION PROTOCOL ADDRESS PORT -> ADDRESS PORT", len(fields))
		return
	}
	r := p.rule
	switch action := fields[0]; action {
	case "alert", "drop", "pass", "reject":
		r.Action = Action(action)
	case "rejectsrc", "rejectdst", "rejectboth":
		r.Action = ActionReject
	default:
		p.wrong("no action is called %q; there are alert, drop, pass and reject", action)
	}
	switch protocol := fields[1]; protocol {
	case "tcp", "tcp-stream":
		r.tcp = true
	case "udp":
		r.udp = true
	case "ip":
		r.tcp, r.udp = true, true
	default:
		if !isWord(protocol) {
			p.wrong("%q is no protocol", protocol)
		}
		p.without("protocol " + protocol)
	}
	switch fields[4] {
	case "->":
	case "<>":
		r.bidirectional = true
	default:
		p.wrong("%q is no direction; write -> or <>", fields[4])
	}
	r.source, r.destination = p.addresses(fields[2]), p.addresses(fields[5])
	r.sourcePorts, r.destinationPorts = p.ports(fields[3]), p.ports(fields[6])
}

// headerFields splits at blanks that are not within brackets.
func headerFields(text string) []string {
	var fields []string
	depth, start := 0, -1
	for i := 0; i <= len(text); i++ {
		blank := i == len(text) || depth <= 0 && (text[i] == ' ' || text[i] == '\t')
		switch {
		case blank && start >= 0:
			fields = append(fields, text[start:i])
			start = -1
		case !blank && start < 0:
			start = i
		}
		if i < len(text) {
			switch text[i] {
			case '[':
				depth++
			case ']':
				depth--
			}
		}
	}
	return fields
}

func isWord(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.') {
			return false
		}
	}
	return s != "" && len(s) <= 64
}
