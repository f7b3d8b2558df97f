package image

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/testutil"
)

// unpacked is an entry as a reader of the format sees it.
type unpacked struct {
	mode    uint64
	links   uint64
	content string
}

// unpack reads an archive as the kernel does (init/initramfs.c).
func unpack(t *testing.T, b []byte) map[string]unpacked {
	t.Helper()
	entries := make(map[string]unpacked)
	for at := 0; ; {
		header := string(b[at : at+110])
		if header[:6] != "070701" {
			t.Fatalf("at %d: magic %q", at, header[:6])
		}
		field := func(i int) uint64 {
			v, err := strconv.ParseUint(header[6+8*i:14+8*i], 16, 32)
			testutil.OK(t, err)
			return v
		}
		nameEnd := at + 110 + int(field(11))
		name := string(b[at+110 : nameEnd-1])
		start := (nameEnd + 3) &^ 3
		end := start + int(field(6))
		if name == "TRAILER!!!" {
			if end != len(b) {
				t.Errorf("%d bytes after the end", len(b)-end)
			}
			return entries
		}
		entries[name] = unpacked{field(1), field(4), string(b[start:end])}
		at = (end + 3) &^ 3
	}
}

func TestArchive(t *testing.T) {
	var b bytes.Buffer
	a := NewArchive(&b)
	if err := errors.Join(
		a.File("/init", 0o755, []byte("one")),
		a.File("etc/deep/er", 0o644, nil),
		a.Link("/bin", "usr/bin"),
		a.Directory("/tmp", 0o1777),
		a.Directory("/etc", 0o700), // there already
		a.Close(),
	); err != nil {
		t.Fatal(err)
	}
	want := map[string]unpacked{
		"init":        {0o100755, 1, "one"},
		"etc":         {0o040755, 2, ""},
		"etc/deep":    {0o040755, 2, ""},
		"etc/deep/er": {0o100644, 1, ""},
		"bin":         {0o120777, 1, "usr/bin"},
		"tmp":         {0o041777, 2, ""},
	}
	if got := unpack(t, b.Bytes()); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	if err := a.File("/late", 0o644, nil); err == nil {
		t.Error("a closed archive takes files")
	}
}

func TestArchiveRefuses(t *testing.T) {
	a := NewArchive(&bytes.Buffer{})
	testutil.OK(t, errors.Join(a.File("/a", 0o644, nil), a.Link("/b/c", "d")))
	for _, name := range []string{"/a", "a", "/b/../a", "b"} {
		if err := a.File(name, 0o644, nil); err == nil {
			t.Errorf("%s is there twice", name)
		}
	}
	failing := NewArchive(failingWriter{})
	if err := failing.File("/a", 0o644, nil); err == nil {
		t.Error("a full disk was not noticed")
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("no space") }

// A copied program runs with nothing but what was copied: the loader of the
// copy, told to look in the copy alone, finds every library.
func TestProgram(t *testing.T) {
	testutil.Need(t, runtime.GOOS == "linux" && runtime.GOARCH == "amd64", "Linux on amd64, whose programs it copies")
	var b bytes.Buffer
	a := NewArchive(&b)
	testutil.OK(t, errors.Join(a.MergeUsr(), a.Program("ls"), a.Program("sh"), a.Program("ls"), a.Close()))
	root := t.TempDir()
	for name, e := range unpack(t, b.Bytes()) {
		file := filepath.Join(root, name)
		testutil.OK(t, os.MkdirAll(filepath.Dir(file), 0o755))
		if e.mode&0o170000 == typeFile {
			testutil.OK(t, os.WriteFile(file, []byte(e.content), os.FileMode(e.mode&0o777)))
		}
	}
	loader := filepath.Join(root, "usr/lib64/ld-linux-x86-64.so.2")
	text, err := exec.Command(loader, "--inhibit-cache", "--library-path", filepath.Join(root, "usr/lib/x86_64-linux-gnu"),
		"--list", filepath.Join(root, "usr/bin/ls")).CombinedOutput()
	if err != nil || !strings.Contains(string(text), "libc.so.6 => "+root) {
		t.Errorf("%v\n%s", err, text)
	}
	if err := a.Program("no-such-program"); err == nil {
		t.Error("a program that is not there was copied")
	}
}

func TestModules(t *testing.T) {
	const text = `kernel/crypto/chacha.ko:
kernel/net/ipv6/udp.ko: kernel/net/ipv4/udp.ko
kernel/net/ipv4/udp.ko:

# a comment
kernel/drivers/net/wireguard.ko: kernel/crypto/chacha.ko kernel/net/ipv6/udp.ko kernel/net/ipv4/udp.ko
kernel/drivers/gpu.ko: kernel/crypto/chacha.ko
`
	modules, err := ReadModules(strings.NewReader(text))
	testutil.OK(t, err)
	for _, test := range []struct {
		prefix string
		want   []string
	}{
		{"kernel/drivers/net/", []string{"kernel/net/ipv4/udp.ko", "kernel/net/ipv6/udp.ko", "kernel/crypto/chacha.ko", "kernel/drivers/net/wireguard.ko"}},
		{"kernel/net/", []string{"kernel/net/ipv4/udp.ko", "kernel/net/ipv6/udp.ko"}},
		{"kernel/sound/", nil},
	} {
		got, err := modules.Needed(func(file string) bool { return strings.HasPrefix(file, test.prefix) })
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %q, %v, want %q", test.prefix, got, err, test.want)
		}
	}
}

func TestModulesRefused(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"kernel/a.ko", "line 1: no colon"},
		{"a.ko:\n: b.ko", "line 2"},
		{"/etc/shadow:", "not the path"},
		{"a.ko: ../../etc/shadow", "not the path"},
		{"a.ko: b//c.ko", "not the path"},
		{"a.ko:\na.ko:", "line 2: a.ko is there twice"},
		{"a.ko:" + strings.Repeat(" b.ko", maxDependencies+1), "more than"},
		{strings.Repeat("x", maxLine+1), "too long"},
	} {
		if _, err := ReadModules(strings.NewReader(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.40q: got %v, want %q", test.text, err, test.want)
		}
	}
	for _, test := range []struct {
		modules Modules
		want    string
	}{
		{Modules{"a.ko": {"b.ko"}}, "b.ko is needed"},
		{Modules{"a.ko": {"b.ko"}, "b.ko": {"a.ko"}}, "needs itself"},
	} {
		if _, err := test.modules.Needed(func(string) bool { return true }); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want %q", err, test.want)
		}
	}
}

func FuzzReadModules(f *testing.F) {
	f.Add([]byte("a.ko: b.ko c.ko\nb.ko:\nc.ko: b.ko\n"))
	f.Add([]byte("a.ko: a.ko\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		modules, err := ReadModules(bytes.NewReader(text))
		if err != nil {
			return
		}
		order, err := modules.Needed(func(string) bool { return true })
		if err != nil {
			return
		}
		if len(order) != len(modules) {
			t.Errorf("%d of %d modules", len(order), len(modules))
		}
		loaded := make(map[string]bool)
		for _, file := range order {
			for _, need := range modules[file] {
				if !loaded[need] {
					t.Error(fmt.Errorf("%s comes before %s", file, need))
				}
			}
			loaded[file] = true
		}
	})
}
