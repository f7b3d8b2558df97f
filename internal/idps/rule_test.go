package idps

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/testutil"
)

// What a rule means, each compared with one payload that the client sends at
// once and byte by byte, and against a datagram.
func TestRulesMatch(t *testing.T) {
	for _, test := range []struct {
		options, payload string
		want             bool
	}{
		{`content:"attack";`, "an attack here", true},
		{`content:"attack";`, "an Attack here", false},
		{`content:"aTTack"; nocase;`, "an AttacK here", true},
		{`content:"a|00|b";`, "xa\x00b", true},
		{`content:"abc"; offset:3;`, "..abc", false},
		{`content:"abc"; offset:3;`, "...abc", true},
		{`content:"abc"; depth:3;`, "abc", true},
		{`content:"abc"; depth:3;`, ".abc", false},
		{`content:"abc"; depth:4;`, ".abc", true},
		{`content:"abc"; offset:2; depth:4;`, "...abc", true},
		{`content:"abc"; offset:2; depth:4;`, "....abc", false},
		{`content:"abc"; startswith;`, "abcd", true},
		{`content:"abc"; startswith;`, "xabc", false},
		{`content:"abc"; content:"def";`, "def abc", true},
		{`content:"abc"; content:"def"; distance:0;`, "def abc", false},
		{`content:"abc"; content:"def"; distance:0;`, "abcdef", true},
		{`content:"abc"; content:"def"; distance:1;`, "abcdef", false},
		{`content:"abc"; content:"def"; distance:1;`, "abc.def", true},
		{`content:"abc"; content:"def"; within:3;`, "abcdef", true},
		{`content:"abc"; content:"def"; within:3;`, "abc.def", false},
		{`content:"abc"; content:"def"; distance:1; within:4;`, "abc..def", true},
		{`content:"abc"; content:"def"; distance:1; within:4;`, "abc...def", false},
		{`content:"abc"; content:"bcd"; distance:-2;`, "abcd", true},
		{`content:"abc"; content:"def"; within:3; content:"ghi"; within:3;`, "abcdefghi", true},
		// The first def is not the one that ghi follows.
		{`content:"abc"; content:"def"; distance:0; content:"ghi"; within:3;`, "abcdef..defghi", true},
		{`content:"abc"; content:!"def";`, "abc de", true},
		{`content:"abc"; content:!"def"; distance:0; within:5;`, "abc..... def", true},
		{`content:"GET "; content:!"Host:"; distance:0; within:20;`, "GET / HTTP/1.0", true},
		{`content:"long pattern"; content:"x"; fast_pattern; distance:0;`, "long pattern x", true},
		{`content:"num="; pcre:"/num=[0-9]{3,5};/";`, "num=1234;", true},
		{`content:"num="; pcre:"/num=[0-9]{3,5};/";`, "num=12;", false},
		{`content:"num="; pcre:"/NUM=\d+;/i";`, "num=12;", true},
		{`content:"num="; pcre:"/^\d+;/R";`, "num=12;", true},
		{`content:"num="; pcre:"/^\d+;/R";`, "num= 12;", false},
		{`content:"num="; pcre:"/^num/";`, "num=", true},
		{`content:"num="; pcre:"/^num/";`, " num=", false},
		{`content:"num="; pcre:"/^num/m";`, "x\nnum=", true},
		{`content:"num="; pcre:"/a.b/";`, "num= a\nb", false},
		{`content:"num="; pcre:"/a.b/s";`, "num= a\nb", true},
		{`content:"num="; pcre:"/\xff\x00[\x80-\x90]{2}z/";`, "num= \xff\x00\x81\x82z", true},
		{`content:"num="; pcre:"/=.{3}z/";`, "num=\xc3\xa4\xc3z", true},
		{`content:"num="; pcre:"/\/x\;\"/";`, `num= /x;"`, true},
		{`content:"num="; pcre:"/\d/R"; content:"z"; within:1;`, "num=7z", true},
		{`content:"num="; pcre:"/\d/R"; content:"z"; within:1;`, "num=77z", false},
	} {
		for name, run := range map[string]func(i *Inspector){
			"stream at once": func(i *Inspector) {
				c := newConnection(false)
				handshake(t, i, c)
				passes(t, i, 0, c.send(0, []byte(test.payload)))
			},
			"stream of bytes": func(i *Inspector) {
				c := newConnection(true)
				handshake(t, i, c)
				for n := range len(test.payload) {
					passes(t, i, 0, c.send(0, []byte(test.payload[n:n+1])))
				}
			},
			"datagram": func(i *Inspector) {
				passes(t, i, 0, newDatagrams().send(0, []byte(test.payload)))
			},
		} {
			// What is not there yet may be what must not be there.
			if name == "stream of bytes" && strings.Contains(test.options, "!") {
				continue
			}
			i := inspectorOf(t, Alert, numbered(test.options)...)
			run(i)
			if got := len(i.Alerts()) > 0; got != test.want {
				t.Errorf("%s: %s of %q matches: %v", name, test.options, test.payload, got)
			}
		}
	}
	if i := inspectorOf(t, Alert, numbered(`content:"GET "; content:!"Host:"; distance:0; within:20;`)...); true {
		passes(t, i, 0, newDatagrams().send(0, []byte("GET / \r\nHost: x")))
		if len(i.Alerts()) > 0 {
			t.Error("a content that must not be there is, and the rule matches")
		}
	}
}

// What must not be at a place of the stream that nobody can look at any more may be there.
func TestNegatedContentOutOfSight(t *testing.T) {
	for _, options := range []string{`content:"attack"; content:!"GET"; depth:3;`, `content:"attack"; content:!"GET"; startswith;`} {
		for begin, want := range map[string]bool{
			"GET": false, "PUT": true, "PUT" + strings.Repeat("x", 1000): true, "GET" + strings.Repeat("x", 3*reach): false,
		} {
			i := inspectorOf(t, Alert, numbered(options)...)
			c := newConnection(false)
			handshake(t, i, c)
			passes(t, i, 0, c.send(0, []byte(begin)))
			passes(t, i, 0, c.send(0, []byte("attack")))
			if got := len(i.Alerts()) > 0; got != want {
				t.Errorf("%s matches a stream of %d bytes that begins with %s: %v", options, len(begin)+6, begin[:3], got)
			}
		}
	}
	i := inspectorOf(t, Alert, numbered(`content:"attack"; content:!"GET"; depth:3;`, `content:"attack"; content:!"GET"; offset:3;`, `content:"attack"; content:!"GET";`)...)
	passes(t, i, 0, newConnection(false).send(0, []byte("attack")))
	if got := alerted(i); !slices.Equal(got, []uint32{3}) {
		t.Errorf("a stream whose beginning is not known: alerts %v", got)
	}
}

func TestRulesOfFlows(t *testing.T) {
	const attack = `content:"attack";`
	for name, test := range map[string]struct {
		rule string
		want []int // ends whose sending of the attack is seen
	}{
		"any":             {`alert tcp any any -> any any (` + attack + ` sid:1;)`, []int{0, 1}},
		"udp":             {`alert udp any any -> any any (` + attack + ` sid:1;)`, nil},
		"to server":       {`alert tcp any any -> any any (flow:established,to_server; ` + attack + ` sid:1;)`, []int{0}},
		"from client":     {`alert tcp any any -> any any (flow:from_client; ` + attack + ` sid:1;)`, []int{0}},
		"to client":       {`alert tcp any any -> any any (flow:to_client; ` + attack + ` sid:1;)`, []int{1}},
		"not established": {`alert tcp any any -> any any (flow:not_established; ` + attack + ` sid:1;)`, nil},
		"port":            {`alert tcp any any -> any 80 (` + attack + ` sid:1;)`, []int{0}},
		"address":         {`alert tcp 10.0.1.2 any -> any any (` + attack + ` sid:1;)`, []int{1}},
		"no content":      {`alert tcp any any -> any 80 (sid:1;)`, []int{0}},
		"both ways":       {`alert tcp any any <> any 80 (` + attack + ` sid:1;)`, []int{0, 1}},
	} {
		var got []int
		for from := range 2 {
			i := inspectorOf(t, Alert, test.rule)
			c := newConnection(false)
			handshake(t, i, c)
			passes(t, i, from, c.send(from, []byte("an attack")))
			if len(i.Alerts()) > 0 {
				got = append(got, from)
			}
		}
		if !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: seen from ends %v, want %v", name, got, test.want)
		}
	}
	i := inspectorOf(t, Alert, `alert udp any any -> any any (flow:established; `+attack+` sid:1;)`)
	c := newDatagrams()
	passes(t, i, 0, c.send(0, []byte("attack")))
	if len(i.Alerts()) > 0 {
		t.Error("a datagram that none answered is established")
	}
	passes(t, i, 1, c.send(1, []byte("answer")))
	passes(t, i, 0, c.send(0, []byte("attack")))
	if len(i.Alerts()) != 1 {
		t.Error("datagrams in both directions are not established")
	}
}

func TestFlowbits(t *testing.T) {
	i := inspectorOf(t, Alert, numbered(
		`content:"second"; flowbits:isset,first;`,
		`content:"first"; flowbits:set,first; flowbits:noalert;`,
		`content:"third"; flowbits:isnotset,first;`,
		`content:"undo"; flowbits:unset,first;`,
		`content:"fourth"; flowbits:isset,first;`,
		`content:"turn"; flowbits:toggle,first; noalert;`,
		`content:"fifth"; flowbits:isset,first;`,
	)...)
	c := newConnection(false)
	handshake(t, i, c)
	for _, word := range []string{"second", "first", "third", "second", "undo", "fourth", "third", "turn", "fifth"} {
		passes(t, i, 0, c.send(0, []byte(word)))
	}
	if got, want := alerted(i), []uint32{1, 4, 3, 7}; !reflect.DeepEqual(got, want) {
		t.Errorf("alerts %v, want %v", got, want)
	}
}

func TestPassRule(t *testing.T) {
	i := inspectorOf(t, Deny, `pass tcp any any -> any any (content:"friend"; sid:1;)`, rule(`content:"attack";`+" gid:2;"))
	c := newConnection(false)
	handshake(t, i, c)
	passes(t, i, 0, c.send(0, []byte("friend")))
	passes(t, i, 0, c.send(0, []byte("attack")))
	if n := i.Counters().Alerts; n != 0 {
		t.Errorf("%d alerts on a flow that passes", n)
	}
}

// A match does not depend on how the stream was cut, nor on order or
// repetition of segments.
func TestSegmentsDoNotMatter(t *testing.T) {
	options := []string{
		`content:"abab";`, `content:"aBc"; nocase; content:"cb"; distance:0; within:9;`, `content:"bbb"; offset:700;`,
		`content:"cabc"; content:"aaa"; distance:-300; within:2000;`, `content:"ccc"; pcre:"/c[ab]{4}c/R";`,
		`content:"bca"; depth:20; content:"cacaca"; distance:900;`, `content:"a"; content:"bbbbbb"; fast_pattern; within:40;`,
	}
	matched := 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 4))
		text := randomText(r, "abc", 1500+r.IntN(2500))
		if seed%3 == 0 {
			text = randomText(r, "abcABCxyz. ", len(text))
		}
		sids := func(frames [][]byte, c *connection) []uint32 {
			i := inspectorOf(t, Alert, numbered(slices.Clone(options)...)...)
			for _, f := range frames {
				passes(t, i, 0, f)
			}
			got := alerted(i)
			slices.Sort(got)
			return got
		}
		whole := newConnection(false)
		want := sids([][]byte{whole.open(), whole.send(0, text)}, whole)
		matched += len(want)
		cutUp := newConnection(seed%2 == 0)
		frames := [][]byte{cutUp.open()}
		for _, piece := range cut(r, text, 1+r.IntN(900)) {
			frames = append(frames, cutUp.send(0, piece))
		}
		if seed%2 == 0 {
			for range len(frames) / 2 { // the first must stay
				a := 1 + r.IntN(len(frames)-1)
				b := min(len(frames)-1, a+r.IntN(5))
				frames[a], frames[b] = frames[b], frames[a]
				frames = append(frames, frames[a])
			}
		}
		if got := sids(frames, cutUp); !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: in %d segments the rules %v match, at once %v", seed, len(frames)-1, got, want)
		}
	}
	if matched < 200 {
		t.Errorf("only %d matches in all: the test is weak", matched)
	}
}

// Perl, whose expressions PCRE takes over, says what matches a string of bytes.
func TestExpressionsLikePerl(t *testing.T) {
	path, err := exec.LookPath("perl")
	testutil.Need(t, err == nil, "the program perl")
	for _, expression := range []string{
		`/a.c/`, `/a.c/s`, `/A.C/i`, `/^b/`, `/^b/m`, `/a{2,3}b/`, `/(ab|ba)+c/`, `/[^a-z]{3}/`, `/\xff/`, `/[\x80-\xff]+z/`, `/.{4}z/`, `/\d+\w?\s/`,
		`/a+?b/`, `/\x00/`, `/[\r\n]b/`, `/(?:x|y)\.z/`, `/\w{5}/`, `/[[:punct:]]a/`,
	} {
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 6))
			payload := randomText(r, "aabbcxyz.A1 \n\r\x00\x80\xc3\xa4\xff", 1+r.IntN(40))
			// The content is in every payload, so the expression decides.
			i := inspectorOf(t, Alert, numbered(fmt.Sprintf(`content:"!"; pcre:"%s";`, expression))...)
			payload = append(payload, '!')
			passes(t, i, 0, newDatagrams().send(0, payload))
			c := exec.Command(path, "-e", fmt.Sprintf(`binmode STDIN; local $/; $_ = <STDIN>; print %s ? 1 : 0`, expression))
			c.Stdin = bytes.NewReader(payload)
			want, err := c.Output()
			if err != nil {
				t.Fatalf("perl: %v", err)
			}
			if got := len(i.Alerts()) == 1; got != (string(want) == "1") {
				t.Errorf("%s of %q matches: %v, perl says %s", expression, payload, got, want)
			}
		}
	}
}
