package ftp

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/hopbench/hopbench/internal/testutil"
)

// badServer speaks FTP as answers say, by the first word of the command, and
// closes the session after one that ends in END; what is in data is sent on each data connection. It lives as long as the test.
func badServer(t testing.TB, data string, answers map[string]string) ClientOptions {
	t.Helper()
	control, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.OK(t, err)
	passive, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.OK(t, err)
	var all pool
	var running sync.WaitGroup
	accept := func(ln net.Listener, serve func(net.Conn)) {
		running.Go(func() {
			for {
				c, err := ln.Accept()
				if err != nil || all.add(c) != nil {
					return
				}
				running.Go(func() { defer func() { _ = c.Close() }(); serve(c) })
			}
		})
	}
	accept(passive, func(c net.Conn) { _, _ = c.Write([]byte(data)) })
	accept(control, func(c net.Conn) {
		say := func(text string) bool {
			text = strings.ReplaceAll(text, "PORT", fmt.Sprint(passive.Addr().(*net.TCPAddr).Port))
			text, last := strings.CutSuffix(text, "END")
			_, err := c.Write([]byte(text))
			return err == nil && !last
		}
		if !say(answers[""]) {
			return
		}
		for lines := bufio.NewScanner(c); lines.Scan(); {
			word, _, _ := strings.Cut(lines.Text(), " ")
			answer, found := answers[word]
			if !found {
				answer = "200 fine\r\n"
			}
			if !say(answer) {
				return
			}
		}
	})
	t.Cleanup(func() {
		_, _ = control.Close(), passive.Close()
		all.close()
		running.Wait()
	})
	return options(control.Addr().(*net.TCPAddr).AddrPort(), 1)
}

// answersOf a server of a file of 5 bytes, but for what a test changes.
func answersOf(changed map[string]string) map[string]string {
	answers := map[string]string{
		"": "220 hello\r\n", "USER": "331 go on\r\n", "PASS": "230 in\r\n", "FEAT": "211-\r\n SIZE\r\n211 end\r\n",
		"SIZE": "213 5\r\n", "EPSV": "229 there (|||PORT|)\r\n", "RETR": "150 here\r\n226 done\r\n",
	}
	maps.Copy(answers, changed)
	return answers
}

func TestHostileServers(t *testing.T) {
	for name, c := range map[string]struct {
		data    string
		answers map[string]string
		want    string // of the error, empty for none
	}{
		"good":                    {"12345", nil, ""},
		"short":                   {"1234", nil, "after 4 of 5 bytes: unexpected EOF"},
		"short, and says why":     {"1234", map[string]string{"RETR": "150 here\r\n451 disk on fire\r\n"}, "disk on fire"},
		"long":                    {"123456", nil, "longer than the server said"},
		"failed at the end":       {"12345", map[string]string{"RETR": "150 here\r\n426 no\r\n"}, `426 "no"`},
		"control connection lost": {"12345", map[string]string{"RETR": "150 here\r\nEND"}, "end the transfer"},
		"no such file":            {"", map[string]string{"RETR": "550 gone\r\n"}, `550 "gone"`},
		"size of a negative":      {"", map[string]string{"SIZE": "213 -1\r\n"}, "must be 1 to"},
		"an empty file":           {"", map[string]string{"SIZE": "213 0\r\n"}, "is empty: name a file"},
		"size beyond all":         {"", map[string]string{"SIZE": "213 99999999999999999999\r\n"}, "ask for the size"},
		"no size":                 {"", map[string]string{"SIZE": "500 what\r\n"}, `500 "what"`},
		"another host, not asked": {"12345", map[string]string{"EPSV": "500 no\r\n", "PASV": "227 (192,0,2,1,0,PORT)\r\n"}, ""},
		"port 0":                  {"", map[string]string{"EPSV": "229 (|||0|)\r\n"}, "data connection to port"},
		"endless greeting":        {"", map[string]string{"": strings.Repeat("220-no end\r\n", 20_000)}, "a reply of more than"},
		"endless line":            {"", map[string]string{"FEAT": strings.Repeat("x", 1<<20)}, "a reply of more than"},
		"silent":                  {"", map[string]string{"": "END"}, "EOF"},
		"no login":                {"", map[string]string{"PASS": "530 go away\r\n"}, `530 "go away"`},
		"not FTP":                 {"", map[string]string{"": "HTTP/1.1 400 Bad Request\r\n\r\n"}, "connect to the FTP server"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := download(t, badServer(t, c.data, answersOf(c.answers)))
			switch {
			case c.want == "" && (err != nil || r.Bytes != 5 || r.CRC32 != 0xcbf53a1c): // of 12345, by crc32(1)
				t.Errorf("%+v, %v", r, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v, want an error that says %q", err, c.want)
			}
		})
	}
}

// An upload that the path or the server breaks says both what happened and what the server
// replied.
func TestBrokenUpload(t *testing.T) {
	o := badServer(t, "", answersOf(map[string]string{"STOR": "150 here\r\n550 disk on fire\r\n"}))
	c, err := Open(testContext(t), o)
	testutil.OK(t, err)
	defer c.Close()
	err = c.Upload(testContext(t), NewContent(), 1<<30)
	if err == nil || !strings.HasPrefix(err.Error(), "store "+o.Path+": ") || !strings.HasSuffix(err.Error(), `; the server says: 550 "disk on fire"`) {
		t.Errorf("%v, want what happened and what the server says", err)
	}
}

// Whatever a server says, the client ends, with an error or a file of the size
// that the server told.
func FuzzClient(f *testing.F) {
	f.Add("220 hello\r\n", "213 5\r\n", "229 (|||PORT|)\r\n", "150 x\r\n226 y\r\n", "12345")
	f.Add("220-a\r\n220 b\r\n", "213 1\r\n", "227 (127,0,0,1,1,2)\r\n", "550 no\r\nEND", "")
	f.Add("\x00\xff", "213\r\nEND", "229 |||\r\n", "END", "x")
	f.Fuzz(func(t *testing.T, greeting, size, epsv, retr, data string) {
		ctx, cancel := context.WithCancel(testContext(t))
		defer cancel()
		// A server that says too little is waited for; what matters here is what
		// is made of what it says.
		o := badServer(t, data, answersOf(map[string]string{"": greeting + "END", "SIZE": size + "END", "EPSV": epsv + "END", "RETR": retr + "END"}))
		c, err := Open(ctx, o)
		if err != nil {
			return
		}
		defer c.Close()
		n, err := c.Size()
		if err != nil {
			return
		}
		if n < 1 || n > MaxFileBytes {
			t.Errorf("a file of %d bytes", n)
		}
		if r, err := c.Download(ctx, n); err == nil && r.Bytes != n {
			t.Errorf("%d bytes of %d", r.Bytes, n)
		}
	})
}

// Whatever a server says wrongly, what is told of it is one short line.
func TestTextsOfServers(t *testing.T) {
	const forged = "\x1b]0;owned\x07\x1b[2J\u202e\u0085"
	long := strings.Repeat(forged, 1000)
	for name, answers := range map[string]map[string]string{
		"a reply":               {"PASS": "530 " + forged + "\r\n"},
		"of several lines":      {"PASS": "530-" + forged + "\r\n09:00:00 all is well\r\n530 end\r\n"},
		"a long one":            {"PASS": "530 " + long + "\r\n"},
		"no reply":              {"PASS": forged + "\r\n"},
		"to the first":          {"": long + "\r\n"},
		"to the size":           {"SIZE": "213 " + forged + "\r\n"},
		"a size that is none":   {"SIZE": "550 " + forged + "\r\n"},
		"to the file":           {"RETR": "550 " + forged + "\r\n"},
		"an end":                {"RETR": "150 here\r\n451 " + long + "\r\n"},
		"an address":            {"EPSV": "229 (|||" + forged + "|)\r\n"},
		"an address that fails": {"EPSV": "229 (|||" + long + "\r\n", "PASV": "227 " + forged + "\r\n"},
	} {
		_, err := download(t, badServer(t, "1234", answersOf(answers)))
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		text := err.Error()
		if utf8.RuneCountInString(text) > 1100 || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%s: %.300q", name, text)
		}
	}
	c, err := Open(testContext(t), badServer(t, "", answersOf(map[string]string{"": "220 " + long + "\r\n"})))
	testutil.OK(t, err)
	defer c.Close()
	if g := c.Greeting(); utf8.RuneCountInString(g) > maxGreeting || strings.ContainsFunc(g, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("greeting %q", g)
	}
}
