package idps

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/testutil"
)

// rule is a rule with what every rule needs; its sid is 1.
func rule(options string) string {
	return "alert tcp any any -> any any (msg:\"m\"; " + options + " sid:1;)"
}

func mustParse(t testing.TB, text string) *RuleSet {
	t.Helper()
	set, err := Parse("test.rules", []byte(text))
	testutil.OK(t, err)
	return set
}

func TestRefusesWithLine(t *testing.T) {
	for text, want := range map[string]string{
		"alert":                                                         "not a rule",
		"alert tcp any any -> any any sid:1;":                           "not a rule",
		"log tcp any any -> any any (sid:1;)":                           `no action is called "log"`,
		"alert tcp any any any any (sid:1;)":                            "header has 6 parts",
		"alert tcp any any <- any any (sid:1;)":                         "no direction",
		"alert tcp! any any -> any any (sid:1;)":                        "no protocol",
		"alert tcp any any -> any any ()":                               "lacks a sid",
		"alert tcp any any -> any any (sid:0;)":                         "sid is",
		"alert tcp any any -> any any (sid:x;)":                         "sid is",
		"alert tcp any any -> any any (sid:1)":                          "semicolon",
		"alert tcp 1.2.3 any -> any any (sid:1;)":                       `"1.2.3" is no address`,
		"alert tcp 1.2.3.4/33 any -> any any (sid:1;)":                  "no network",
		"alert tcp !any any -> any any (sid:1;)":                        "!any is no address",
		"alert tcp $NOWHERE any -> any any (sid:1;)":                    "no address variable $NOWHERE",
		"alert tcp [1.2.3.4 any -> any any (sid:1;)":                    "header has 3 parts",
		"alert tcp ![!1.2.3.4] any -> any any (sid:1;)":                 "negates what is negated",
		"alert tcp any 70000 -> any any (sid:1;)":                       "no port",
		"alert tcp any 9:1 -> any any (sid:1;)":                         "no port",
		"alert tcp any : -> any any (sid:1;)":                           "no port",
		"alert tcp any $NOPORTS -> any any (sid:1;)":                    "no port variable",
		"alert tcp any !any -> any any (sid:1;)":                        "!any is no port",
		rule(`content:abc;`):                                            "quotes",
		rule(`content:"";`):                                             "not 1 to 255",
		rule(`content:"|0|";`):                                          "hexadecimal",
		rule(`content:"|00";`):                                          "none closes",
		rule(`content:"a\";`):                                           "semicolon",
		rule(`nocase;`):                                                 "behind no content",
		rule(`pcre:"/a/"; nocase;`):                                     "behind no content",
		rule(`content:"abc"; nocase; nocase;`):                          "twice",
		rule(`content:"abc"; depth:2;`):                                 "depth is",
		rule(`content:"abc"; offset:-1;`):                               "offset is",
		rule(`content:"abc"; distance:1;`):                              "none before it",
		rule(`content:"abc"; content:"d"; within:0;`):                   "within is",
		rule(`content:"abc"; content:"d"; within:4; offset:2;`):         "both from the start",
		rule(`content:"abc"; startswith; depth:5;`):                     "startswith says all",
		rule(`content:!"abc"; fast_pattern;`):                           "negated",
		rule(`content:"abc"; fast_pattern; content:"d"; fast_pattern;`): "two contents",
		rule(`pcre:"abc";`):                                             "/EXPRESSION/FLAGS",
		rule(`pcre:"/abc/R";`):                                          "nothing before it",
		rule(`flow:to_server,to_client;`):                               "contradicts",
		rule(`flow:established,not_established;`):                       "contradicts",
		rule(`flowbits:set;`):                                           "flowbits:set is none of",
		rule(`flowbits:set,;`):                                          "is none of",
		rule(`con tent:"abc";`):                                         "no option",
		rule(`msg:"open;`):                                              "semicolon",
		rule("") + "\n" + rule(""):                                      "sid 1 is already that of the rule in line 3",
	} {
		t.Run(want, func(t *testing.T) {
			set, err := Parse("bad.rules", []byte("# comment\n\n"+text+"\n"))
			if err == nil {
				t.Fatalf("%s was taken for %d rules, unsupported %v", text, len(set.Rules), set.Unsupported)
			}
			var m Mistake
			if !errors.As(err, &m) || m.File != "bad.rules" || m.Line < 3 || !strings.Contains(err.Error(), want) {
				t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
			}
		})
	}
}

func TestReportsEveryMistake(t *testing.T) {
	_, err := Parse("x", []byte("nonsense\nalert tcp any any -> any any (\\\n  content:\"a\"; depth:0; \\\n  within:1;)\n\nalert icmp any any -> 1.2.3 any (sid:5;)"))
	var lines []int
	for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
		lines = append(lines, e.(Mistake).Line)
	}
	if want := []int{1, 2, 2, 2, 6}; !reflect.DeepEqual(lines, want) {
		t.Errorf("mistakes in lines %v, want %v:\n%v", lines, want, err)
	}
	_, err = Parse("x", []byte(strings.Repeat("nonsense\n", 1000)))
	if n := len(err.(interface{ Unwrap() []error }).Unwrap()); n != maxMistakes {
		t.Errorf("%d mistakes are reported", n)
	}
}

func TestUnsupportedIsListed(t *testing.T) {
	text := strings.Join([]string{
		`alert http any any -> any any (msg:"a"; content:"x"; http_uri; sid:1;)`,
		`alert tcp any any -> any any (content:"x"; http_uri; dsize:>3; sid:2;)`,
		`alert tcp any any -> any any (content:"x"; pcre:"/a(?=b)/"; sid:3;)`,
		`alert tcp any any -> any any (content:"x"; pcre:"/a$/"; sid:4;)`,
		`alert tcp any any -> any any (content:"x"; pcre:"/a/U"; sid:5;)`,
		`alert tcp any any -> any any (pcre:"/a/"; sid:6;)`,
		`alert tcp any any -> any any (content:!"a"; sid:7;)`,
		`alert tcp any any -> any any (content:"x"; fast_pattern:1,2; sid:8;)`,
		`alert tcp any any -> any any (content:"x"; flow:no_stream; sid:9;)`,
		`alert tcp any any -> any any (content:"x"; flowbits:isset,a|b; sid:10;)`,
		`alert tcp any any -> any any (content:"x"; pcre:"/\xe4/i"; sid:11;)`,
		`alert tcp any any -> any any (content:"x"; pcre:!"/a/"; sid:12;)`,
		`alert tcp any any -> any any (content:"x"; pcre:"/(?i)x\xe4/"; sid:13;)`,
		`alert tcp any any -> any any (content:"x"; reference:url,a.example; metadata:a b; priority:1; target:dest_ip; sid:14;)`,
	}, "\n")
	set := mustParse(t, text)
	if len(set.Rules) != 1 || set.Rules[0].SID != 14 || len(set.Unsupported) != 13 {
		t.Fatalf("%d rules loaded, %d not", len(set.Rules), len(set.Unsupported))
	}
	for i, u := range set.Unsupported {
		if int(u.SID) != i+1 || u.Line != i+1 || len(u.Reasons) == 0 {
			t.Errorf("%+v", u)
		}
	}
	reasons := set.UnsupportedReasons()
	for reason, n := range map[string]int{
		"http_uri": 2, "dsize": 1, "protocol http": 1, "pcre that is not regular": 1, "pcre with $, \\z or \\b": 1, "pcre flag U": 1,
		"no content to look for, only expressions or negated contents": 2, "fast_pattern:1,2": 1, "flow:no_stream": 1, "flowbits with |": 1,
		"pcre with letters beyond ASCII": 2, "negated pcre": 1,
	} {
		if reasons[reason] != n {
			t.Errorf("%s: %d rules, want %d (of %v)", reason, reasons[reason], n, reasons)
		}
	}
	if text := set.String(); !strings.Contains(text, "1 rules loaded, 13 not") || !strings.Contains(text, "http_uri (2)") {
		t.Error(text)
	}
}

func TestDecodesContent(t *testing.T) {
	for text, want := range map[string]string{
		`abc`: "abc", `|41 42|c|43|`: "ABcC", `a\"b\\c\;d\:e`: `a"b\c;d:e`, `|0d0a|`: "\r\n", "ä": "ä", `a b`: "a b",
	} {
		got, err := decodeContent(text)
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
}

func TestHeaders(t *testing.T) {
	for header, test := range map[string]struct {
		source, destination string
		want                bool
	}{
		"any any -> any any":                               {"1.1.1.1:1", "2.2.2.2:2", true},
		"1.1.1.1 any -> any any":                           {"1.1.1.1:1", "2.2.2.2:2", true},
		"2.2.2.2 any -> any any":                           {"1.1.1.1:1", "2.2.2.2:2", false},
		"2.2.2.2 any <> any any":                           {"1.1.1.1:1", "2.2.2.2:2", true},
		"1.0.0.0/8 any -> any 2":                           {"1.1.1.1:1", "2.2.2.2:2", true},
		"!1.0.0.0/8 any -> any 2":                          {"1.1.1.1:1", "2.2.2.2:2", false},
		"[1.0.0.0/8,!1.1.1.0/24] any -> any any":           {"1.1.1.1:1", "2.2.2.2:2", false},
		"[1.0.0.0/8,!1.1.2.0/24] any -> any any":           {"1.1.1.1:1", "2.2.2.2:2", true},
		"[3.3.3.3, [1.1.1.1, 4.4.4.4]] any -> any any":     {"1.1.1.1:1", "2.2.2.2:2", true},
		"![3.3.3.3,1.1.1.1] any -> any any":                {"1.1.1.1:1", "2.2.2.2:2", false},
		"$HOME_NET any -> $EXTERNAL_NET any":               {"1.1.1.1:1", "2.2.2.2:2", true},
		"!$HOME_NET any -> any any":                        {"1.1.1.1:1", "2.2.2.2:2", true},
		"any any -> any 1:1023":                            {"1.1.1.1:1", "2.2.2.2:1023", true},
		"any any -> any 1024:":                             {"1.1.1.1:1", "2.2.2.2:1023", false},
		"any any -> any :1023":                             {"1.1.1.1:1", "2.2.2.2:0", true},
		"any any -> any [80,443,8000:8100,!8080]":          {"1.1.1.1:1", "2.2.2.2:8080", false},
		"any any -> any [80,443,8000:8100,!8081]":          {"1.1.1.1:1", "2.2.2.2:8080", true},
		"any any -> any !80":                               {"1.1.1.1:1", "2.2.2.2:80", false},
		"any any -> any $HTTP_PORTS":                       {"1.1.1.1:1", "2.2.2.2:80", true},
		"any any -> any !$HTTP_PORTS":                      {"1.1.1.1:1", "2.2.2.2:80", false},
		"any any -> any $FILE_DATA_PORTS":                  {"1.1.1.1:1", "2.2.2.2:110", true},
		"fd00::/8 any -> any any":                          {"[fd00::1]:1", "[fd00::2]:2", true},
		"fd00::1 any -> fd00::3 any":                       {"[fd00::1]:1", "[fd00::2]:2", false},
		"any any -> [any,!2.2.2.2] any":                    {"1.1.1.1:1", "2.2.2.2:2", false},
		"[ 1.1.1.1 , 3.3.3.3 ]  [ 1 , 2 ]  ->   any   any": {"1.1.1.1:1", "2.2.2.2:2", true},
	} {
		set := mustParse(t, "alert tcp "+header+" (sid:1;)")
		r := set.Rules[0]
		if got := r.covers(netip.MustParseAddrPort(test.source), netip.MustParseAddrPort(test.destination)); got != test.want {
			t.Errorf("%s: from %s to %s is %v", header, test.source, test.destination, got)
		}
	}
}

func TestBuiltin(t *testing.T) {
	set := Builtin()
	if len(set.Rules) < 1000 || len(set.Unsupported) > 0 {
		t.Errorf("%s", set)
	}
	first := set.Rules[0]
	if string(first.steps[0].content) != TestString || !first.tcp || !first.udp || !first.alone {
		t.Errorf("the first rule is not that of the test string: %+v", first)
	}
	for _, r := range set.Rules {
		if len(r.steps[r.fast].content) < 4 {
			t.Errorf("sid %d looks for %q, which is in everything", r.SID, r.steps[r.fast].content)
		}
		if r.Message == "" || r.Class == "" {
			t.Errorf("sid %d has no message or class", r.SID)
		}
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "my.rules")
	if _, _, err := Load(path); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "my.rules") {
		t.Error(err)
	}
	testutil.OK(t, os.WriteFile(path, []byte(rule(`content:"abc";`)), 0o600))
	set, text, err := Load(path)
	if err != nil || len(set.Rules) != 1 || len(text) == 0 {
		t.Errorf("%v, %v", set, err)
	}
	long := make([]byte, MaxFileBytes+1)
	for i := range long {
		long[i] = '\n'
	}
	testutil.OK(t, os.WriteFile(path, long, 0o600))
	if _, _, err := Load(path); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Error(err)
	}
}

// FuzzParse: whatever a file holds, every line with a rule ends as a rule, as
// one that is not supported, or as a mistake; and what was loaded can be used.
func FuzzParse(f *testing.F) {
	for i, r := range Builtin().Rules {
		if i%50 == 0 {
			f.Add(strings.Split(string(builtinText), "\n")[r.Line-1])
		}
	}
	f.Add(rule(`content:"a|00|b"; nocase; offset:1; depth:9; content:!"c"; distance:-2; within:5; pcre:"/x[0-9]{1,3}/Ri"; flowbits:set,a;`))
	f.Add("alert udp ![1.2.3.4,[fd00::/8]] [1:,!80] <> $HOME_NET any \\\n(flow:to_client,established; sid:2;)")
	f.Fuzz(func(t *testing.T, text string) {
		set, err := Parse("fuzz", []byte(text))
		if err != nil {
			if text := err.Error(); text == "" || strings.Count(text, "\n") > maxMistakes*2 {
				t.Fatalf("%q", text)
			}
			return
		}
		for _, r := range set.Rules {
			if r.SID == 0 || r.Line < 1 || len(r.steps) > 0 && r.fast < 0 {
				t.Fatalf("%+v", r)
			}
		}
		inspector, err := New(set, Deny)
		if err != nil {
			t.Skip(err)
		}
		c := newConnection(false)
		inspector.Inspect(0, c.open())
		inspector.Inspect(0, c.send(0, []byte(text)))
		inspector.Inspect(1, c.send(1, []byte(text)))
		if c := inspector.Counters(); c.Alerts > uint64(len(set.Rules)) {
			t.Fatalf("%d alerts by %d rules", c.Alerts, len(set.Rules))
		}
		_ = fmt.Sprint(set)
	})
}
