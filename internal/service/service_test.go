package service

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/testutil"
)

var odd = Agent{
	Program:   `/usr/local/bin/hop "bench" 100%`,
	TokenFile: "/etc/hopbench/a & b <token>",
	Args:      []string{"agent", "--listen", "[::]:5202", "--max-rate", "1G", "--allow-target", `$HOME\x`},
}

func TestSystemsThatAreNotKnown(t *testing.T) {
	if _, err := Describe("plan9", odd); err == nil || !strings.Contains(err.Error(), "linux") {
		t.Error(err)
	}
}

// verify has systemd itself look for something wrong with a unit.
func verify(t *testing.T, name, text string) {
	t.Helper()
	analyze, err := exec.LookPath("systemd-analyze")
	testutil.Need(t, err == nil, "systemd-analyze")
	file := filepath.Join(t.TempDir(), name+".service")
	testutil.OK(t, os.WriteFile(file, []byte(text), 0o644))
	out, err := exec.Command(analyze, "verify", "--man=no", file).CombinedOutput()
	if err != nil || strings.Contains(string(out), name) {
		t.Errorf("systemd-analyze verify: %v\n%s\n%s", err, out, text)
	}
}

func TestUnit(t *testing.T) {
	a := odd
	a.Program = filepath.Join(t.TempDir(), `hop bench`)
	testutil.OK(t, os.WriteFile(a.Program, nil, 0o755))
	text, err := Describe("linux", a)
	testutil.OK(t, err)
	verify(t, Name, text)
	for _, line := range []string{
		`ExecStart="` + a.Program + `" "agent" "--listen" "[::]:5202" "--max-rate" "1G" "--allow-target" "$$HOME\\x" --token-file ${CREDENTIALS_DIRECTORY}/token`,
		"LoadCredential=token:" + a.TokenFile, "DynamicUser=yes",
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("there is no line %s in\n%s", line, text)
		}
	}
}

func TestServerUnit(t *testing.T) {
	program := filepath.Join(t.TempDir(), "hopbench") // where it is not installed
	testutil.OK(t, os.WriteFile(program, nil, 0o755))
	text := strings.Replace(ServerUnit(), "/usr/bin/hopbench", program, 1)
	verify(t, strings.TrimSuffix(ServerUnitName, ".service"), text)
	if want := `ExecStart="` + program + `" "serve" --token-file`; !strings.Contains(text, want) {
		t.Errorf("there is no %s in\n%s", want, text)
	}
}

// The property list is XML, whatever is in a name, and has the command as it is.
func TestPropertyList(t *testing.T) {
	text, err := Describe("darwin", odd)
	testutil.OK(t, err)
	var list struct {
		Keys      []string `xml:"dict>key"`
		Arguments []string `xml:"dict>array>string"`
	}
	d := xml.NewDecoder(strings.NewReader(strings.TrimSpace(text)))
	testutil.OK(t, d.Decode(&list))
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		t.Errorf("something follows the list: %v", err)
	}
	want := append(append([]string{odd.Program}, odd.Args...), "--token-file", odd.TokenFile)
	if strings.Join(list.Arguments, "\n") != strings.Join(want, "\n") {
		t.Errorf("the command is %q", list.Arguments)
	}
	if strings.Join(list.Keys, " ") != "Label ProgramArguments UserName RunAtLoad KeepAlive StandardErrorPath SoftResourceLimits" {
		t.Errorf("keys %q", list.Keys)
	}
}

func TestWindowsCommands(t *testing.T) {
	text, err := Describe("windows", Agent{Program: `C:\Program Files\it's\hopbench.exe`, TokenFile: `C:\token`, Args: []string{"agent", "--listen", ":5202"}})
	testutil.OK(t, err)
	if want := `-BinaryPathName '"C:\Program Files\it''s\hopbench.exe" "agent" "--listen" ":5202" "--token-file" "C:\token"'`; !strings.Contains(text, want) {
		t.Errorf("%s\nlacks %s", text, want)
	}
	// An agent that fails stops with an error, which the service manager by itself takes for no failure.
	if want := "\nsc.exe failureflag " + Name + " 1\n"; !strings.Contains(text, want) {
		t.Errorf("%s\nlacks %s", text, want)
	}
}
