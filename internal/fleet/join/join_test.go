package join

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/testutil"
)

func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fw.join")
	first, made, err := Open(path, "fw")
	testutil.OK(t, err)
	if !made {
		t.Error("it was there already")
	}
	for _, name := range []string{path, path + keySuffix} {
		info, err := os.Stat(name)
		testutil.OK(t, err)
		if runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("%s may be read by others: %v", name, info.Mode())
		}
	}
	again, made, err := Open(path, "fw")
	testutil.OK(t, err)
	if made || !reflect.DeepEqual(again.File, first.File) {
		t.Errorf("made %v: %+v after %+v", made, again.File, first.File)
	}
	text, err := os.ReadFile(path)
	testutil.OK(t, err)
	if read, err := Parse(text); err != nil || !reflect.DeepEqual(read, first.File) {
		t.Errorf("%+v, %v", read, err)
	}
	if _, _, err := Open(path, "other"); err == nil || !strings.Contains(err.Error(), "fleet fw") {
		t.Errorf("another fleet's file: %v", err)
	}
	_, _, err = Open(filepath.Join(t.TempDir(), "other"), "fw")
	testutil.OK(t, err)
}

// Half of a secret, or halves of two, are refused with what to do.
func TestOpenRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fw.join")
	_, _, err := Open(path, "fw")
	testutil.OK(t, err)
	key, err := os.ReadFile(path + keySuffix)
	testutil.OK(t, err)
	testutil.OK(t, os.Remove(path+keySuffix))
	if _, _, err := Open(path, "fw"); err == nil || !strings.Contains(err.Error(), "one is missing") {
		t.Error(err)
	}
	testutil.OK(t, os.WriteFile(path+keySuffix, []byte("no key"), 0o600))
	if _, _, err := Open(path, "fw"); err == nil || !strings.Contains(err.Error(), "no key") {
		t.Error(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	_, _, err = Open(other, "fw")
	testutil.OK(t, err)
	testutil.OK(t, os.WriteFile(other+keySuffix, key, 0o600))
	if _, _, err := Open(other, "fw"); err == nil || !strings.Contains(err.Error(), "another key") {
		t.Error(err)
	}
}

// The join file of a cluster has who vouches for its servers, and is not that of another broker.
// What is derived of its key is always the same, and of another key another.
func TestOpenCluster(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fw.join")
	ca, err := os.ReadFile("testdata/ca.pem")
	testutil.OK(t, err)
	first, made, err := OpenCluster(path, "fw", Cluster{CA: string(ca)})
	testutil.OK(t, err)
	if config := first.File.TLS(); !made || config.RootCAs == nil || config.InsecureSkipVerify {
		t.Errorf("made %v, %+v", made, config)
	}
	again, _, err := OpenCluster(path, "fw", Cluster{CA: string(ca)})
	testutil.OK(t, err)
	derived := map[[32]byte]string{}
	for _, c := range []struct {
		name string
		Secret
		purpose string
	}{{"first", first, "a"}, {"first, for another purpose", first, "b"}} {
		got, err := c.Derive(c.purpose)
		testutil.OK(t, err)
		same, err := again.Derive(c.purpose)
		testutil.OK(t, err)
		if got != same || derived[got] != "" {
			t.Errorf("%s: %x, %x, as %s", c.name, got, same, derived[got])
		}
		derived[got] = c.name
	}
	for _, open := range []func() error{
		func() error { _, _, err := Open(path, "fw"); return err },
		func() error { _, _, err := OpenCluster(path, "fw", Cluster{}); return err },
	} {
		if err := open(); err == nil || !strings.Contains(err.Error(), "name that broker (--nats") {
			t.Error(err)
		}
	}
	if _, _, err := OpenCluster(filepath.Join(t.TempDir(), "x"), "fw", Cluster{CA: "no certificate"}); err == nil || !strings.Contains(err.Error(), "no certificate (PEM)") {
		t.Error(err)
	}
}

// A proof is of one token, fleet, name and key.
func TestProof(t *testing.T) {
	f := File{Fleet: "fw", Token: "t"}
	proof := f.Proof("vm", "K")
	if !f.Proves("vm", "K", proof) {
		t.Error("the right proof is refused")
	}
	for _, c := range []struct {
		f         File
		name, key string
	}{{f, "vm2", "K"}, {f, "vm", "L"}, {File{Fleet: "fv", Token: "t"}, "vm", "K"}, {File{Fleet: "fw", Token: "u"}, "vm", "K"}} {
		if c.f.Proves(c.name, c.key, proof) {
			t.Errorf("%+v takes the proof of another", c)
		}
	}
	if f.Proves("vm", "K", "") {
		t.Error("nothing proves the token")
	}
}

// Whatever a join file has, what is read of it can be used, and is written as it was read.
func FuzzParse(f *testing.F) {
	good := File{Format: format, Fleet: "fw", Token: strings.Repeat("0a", 32), BrokerSHA256: strings.Repeat("ff", 32)}
	text, err := json.Marshal(good)
	testutil.OK(f, err)
	f.Add(text)
	good.Cluster = &Cluster{}
	text, err = json.Marshal(good)
	testutil.OK(f, err)
	f.Add(text)
	f.Add([]byte(`{"format":"hopbench.join/2"}`))
	f.Add([]byte(strings.Repeat("[", 5000)))
	f.Fuzz(func(t *testing.T, text []byte) {
		read, err := Parse(text)
		if err != nil {
			return
		}
		again, err := json.Marshal(read)
		testutil.OK(t, err)
		if twice, err := Parse(again); err != nil || !reflect.DeepEqual(twice, read) || read.TLS() == nil {
			t.Errorf("%+v is read again as %+v, %v", read, twice, err)
		}
	})
}
