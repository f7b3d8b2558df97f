package idps

import (
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
)

// pcre reads /EXPRESSION/FLAGS. What Go's expressions cannot say, or would say
// otherwise on a stream whose end is not known, is not supported.
func (o *optionReader) pcre(value string) {
	inner, negated, ok := o.quoted("pcre", value)
	if !ok {
		return
	}
	end := strings.LastIndexByte(inner, '/')
	if len(inner) < 2 || inner[0] != '/' || end == 0 {
		o.wrong("pcre %s is not /EXPRESSION/FLAGS", shorten(value))
		return
	}
	if negated {
		o.without("negated pcre")
		return
	}
	s := step{}
	text := inner[1:end]
	for _, f := range inner[end+1:] {
		switch f {
		case 'i', 's', 'm':
			text = fmt.Sprintf("(?%c)%s", f, text)
		case 'R':
			s.relative = true
		default:
			o.without(fmt.Sprintf("pcre flag %c", f))
		}
	}
	if s.relative && len(o.rule.steps) == 0 {
		o.wrong("pcre %s: there is nothing before it to be relative to", shorten(value))
		return
	}
	expression, reason := compileExpression(text, &s)
	if reason != "" {
		o.without(reason)
		return
	}
	s.expression = expression
	o.add(s)
}

// compileExpression returns a reason when it cannot be done.
func compileExpression(text string, s *step) (*regexp.Regexp, string) {
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, "pcre that is not regular"
	}
	if reason := unsuitable(tree, s); reason != "" {
		return nil, reason
	}
	expression, err := regexp.Compile(text)
	if err != nil {
		return nil, "pcre that is not regular"
	}
	return expression, ""
}

// unsuitable looks for what depends on where the payload ends, which a stream
// does not tell in time, and for letters of which PCRE folds the case of bytes
// and Go that of characters.
func unsuitable(tree *syntax.Regexp, s *step) string {
	switch tree.Op {
	case syntax.OpEndLine, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return "pcre with $, \\z or \\b"
	case syntax.OpBeginText:
		s.fromStart = !s.relative
	case syntax.OpBeginLine:
		s.fromLine = !s.relative
	case syntax.OpLiteral:
		for _, r := range tree.Rune {
			if r > 0xff || r > 0x7f && tree.Flags&syntax.FoldCase != 0 {
				return "pcre with letters beyond ASCII"
			}
		}
	}
	for _, sub := range tree.Sub {
		if reason := unsuitable(sub, s); reason != "" {
			return reason
		}
	}
	return ""
}

// byteRunes presents each byte as the character of that number, so that an
// expression counts bytes and finds those beyond ASCII, as PCRE does.
type byteRunes struct {
	data []byte
	at   int
}

func (b *byteRunes) ReadRune() (rune, int, error) {
	if b.at >= len(b.data) {
		return 0, 0, io.EOF
	}
	r := rune(b.data[b.at])
	b.at++
	return r, 1, nil
}
