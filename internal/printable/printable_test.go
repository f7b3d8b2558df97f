package printable

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestLine(t *testing.T) {
	for _, c := range []struct {
		name, in, want string
		most           int
	}{
		{"plain", "tcp, 1 flow", "tcp, 1 flow", 20},
		{"just fits", "12345", "12345", 5},
		{"too long", "123456", "1234…", 5},
		{"runes, not bytes", "äöüß€", "äöüß€", 5},
		{"one rune", "ab", "…", 1},
		{"a terminal's title and colours", "\x1b]0;owned\x07\x1b[32mok", " ]0;owned  [32mok", 40},
		{"C1 controls", "a\u009bb\u0085c", "a b c", 40},
		{"a forged line", "a\r\n09:00:00 10.0.0.1: done", "a  09:00:00 10.0.0.1: done", 40},
		{"right to left", "a\u202egnp.exe\u2066", "a gnp.exe ", 40},
		{"invisible", "a\u200bb\ufeffc\u2028d", "a b c d", 40},
		{"no UTF-8", "a\xff\xfeb", "a  b", 40},
	} {
		if got := Line(c.in, c.most); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestShellWord(t *testing.T) {
	for word, want := range map[string]string{
		"routing-appliance": "routing-appliance", "--only=a,b": "--only=a,b", "./my file's.yaml": `'./my file'\''s.yaml'`, "": "''", "a\nb": "'a\nb'",
	} {
		if got := ShellWord(word); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func FuzzLine(f *testing.F) {
	f.Add("\x1b[2J\x00\u202e", 3)
	f.Fuzz(func(t *testing.T, text string, most int) {
		if most < 1 || most > 1000 {
			return
		}
		got := Line(text, most)
		if !utf8.ValidString(got) || utf8.RuneCountInString(got) > most {
			t.Fatalf("%q of at most %d", got, most)
		}
		if i := strings.IndexFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
			t.Fatalf("%q still has a character that is not printable", got)
		}
		if again := Line(got, most); again != got {
			t.Fatalf("%q becomes %q", got, again)
		}
	})
}
