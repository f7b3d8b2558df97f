// Rulegen writes the rules that come with the program, in Suricata's format,
// from the lists in this folder. The lists are of its own making: public knowledge of
// what attacks look like, and invented names under the domains that RFC 2606
// reserves. No rule is taken from a published rule set.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
)

func main() {
	out := flag.String("o", "", "file to write")
	flag.Parse()
	text := generate()
	if *out == "" {
		fmt.Print(string(text))
		return
	}
	if err := os.WriteFile(*out, text, 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "rulegen:", err)
		os.Exit(1)
	}
}

// category is a family of rules. Its signature ids begin at first, so that an
// addition to one list renumbers no other.
type category struct {
	first   int
	title   string
	class   string
	entries []entry
}

// entry is one rule.
type entry struct {
	header  string // between action and options
	message string
	body    string // options that match
}

// The headers of most rules.
const (
	toServer = "tcp any any -> any any"
	anyway   = "tcp any any <> any any"
	dns      = "udp any any -> any 53"
)

func generate() []byte {
	var b bytes.Buffer
	fmt.Fprintln(&b, "# Rules that come with hopbench, in Suricata's format. Written by rulegen: edit its lists.")
	for _, c := range categories() {
		fmt.Fprintf(&b, "\n# %s\n", c.title)
		for i, e := range c.entries {
			fmt.Fprintf(&b, "alert %s (msg:\"%s\"; %s classtype:%s; sid:%d; rev:1;)\n",
				e.header, escape("HOPBENCH "+e.message), e.body, c.class, c.first+i)
		}
	}
	return b.Bytes()
}

// escape makes a text fit between quotes.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, `;`, `\;`).Replace(text)
}

// content is an option that looks for bytes; those that mean something in a
// rule are written in hexadecimal.
func content(text string) string {
	var b strings.Builder
	b.WriteString(`content:"`)
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ' || c > '~' || strings.IndexByte(`"\;:|`, c) >= 0:
			fmt.Fprintf(&b, "|%02x|", c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteString(`";`)
	return b.String()
}

// anyCase is content without regard to case.
func anyCase(text string) string { return content(text) + " nocase;" }

const established = "flow:established,to_server; "

// each makes a rule of each text of a list.
func each(texts []string, header, what string, body func(text string) string) []entry {
	var entries []entry
	for _, t := range texts {
		entries = append(entries, entry{header, what + " " + printable(t), body(t)})
	}
	return entries
}

// printable is a text for a message.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '.'
		}
		return r
	}, text)
}
