package endpoint

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/fleet/bus"
	"github.com/hopbench/hopbench/internal/testutil"
)

// What is wrong with the command line of an agent, or of a server, is said in a sentence with the way
// out, with the status of a wrong command line.
func TestAgentUsage(t *testing.T) {
	t.Setenv(base.TokenFileEnv, "")
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	testutil.OK(t, os.WriteFile(token, []byte("a token that is long enough\n"), 0o600))
	for _, c := range []struct {
		args string
		want string
	}{
		{"agent", "hopbench agent --listen :5202 --token-file FILE"},
		{"agent --listen :5202", "make one with"},
		{"agent --listen vm7 --token-file " + token, `--listen "vm7": write an address`},
		{"agent --listen :http --token-file " + token, "write an address"},
		{"agent --listen :5202 --stdio", "exclude each other"},
		{"agent --listen :5202 --max-flows 0 --token-file " + token, "must be more than 0"},
		{"agent --listen :5202 --label role=client --token-file " + token, "for the machines of a fleet"},
		{"agent --listen :5202 --allow-target vm7 --token-file " + token, "--allow-target"},
		{"agent --listen :5202 --allow-target fe80::7%eth0 --token-file " + token, "leave out %eth0"},
		{"agent --listen :5202 --allow-target fe80::7%eth0/64 --token-file " + token, "--allow-target"},
		{"agent --listen :5202 --max-rate fast --token-file " + token, "--max-rate"},
		{"agent install", "--token-file"},
		{"serve -p 0 --max-flows 0", "must be more than 0"},
		{"serve -p 0 --max-duration 0s", "must be more than 0"},
		{"serve -p 0 -B 0.0.0.0", "add --token-file FILE, or --open\n"},
		{"serve -p 0 -B localhost", `--bind "localhost": write an address of this host`},
		{"serve -p 0 -B 192.0.2.1 --open", "--bind 192.0.2.1 is no address of this host"},
		{"agent install --print=plan9 --token-file " + token, "darwin, linux, windows"},
	} {
		var out, err bytes.Buffer
		if status := Main(strings.Fields(c.args), nil, &out, &err); status != base.ExitUsage || !strings.Contains(err.String(), c.want) {
			t.Errorf("%s: status %d, %s", c.args, status, err.String())
		}
	}
}

// What --allow-target names contains the addresses that a target has.
func TestParsePrefix(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.7": "10.0.0.7/32", "10.0.0.7/24": "10.0.0.0/24", "fd00::7": "fd00::7/128", "fd00::7/64": "fd00::/64",
		"::ffff:10.0.0.7": "10.0.0.7/32", "::ffff:10.0.0.7/120": "10.0.0.0/24",
	} {
		if got, err := parsePrefix(text); err != nil || got.String() != want {
			t.Errorf("%s is %v, %v, want %s", text, got, err, want)
		}
	}
}

func TestListenAddress(t *testing.T) {
	for given, want := range map[string]string{
		"10.0.0.7": "10.0.0.7:5202", "::1": "[::1]:5202", ":5202": ":5202", "[fd00::7]:1": "[fd00::7]:1", "10.0.0.7:0": "10.0.0.7:0",
	} {
		if got, err := listenAddress(given); got != want || err != nil {
			t.Errorf("%s: %q, %v", given, got, err)
		}
	}
}

func TestJoinAddress(t *testing.T) {
	for given, want := range map[string]string{
		"coordinator": "coordinator:5203", "::1": "[::1]:5203", "tls://10.0.0.5:1": "10.0.0.5:1",
		"tls://nats-1:4222,nats-2,tls://[fd00::7]:1": "nats-1:4222,nats-2:5203,[fd00::7]:1",
	} {
		if got, err := joinAddress(given, 5203); got != want || err != nil {
			t.Errorf("%s: %q, %v", given, got, err)
		}
	}
	for _, given := range []string{"", "a,,b", "a:0", "a:http", "nats://a", "a,b/c"} {
		if got, err := joinAddress(given, 5203); err == nil || !strings.Contains(err.Error(), "write where the coordinator is") {
			t.Errorf("%q: %q, %v", given, got, err)
		}
	}
}

// What is installed is the agent with the flags that were given, and absolute paths.
func TestAgentInstallPrints(t *testing.T) {
	for system, want := range map[string][]string{
		"linux":   {`"agent" "--listen" ":5202" "--max-rate" "1G" "--allow-target" "10.0.0.7" "--allow-target" "10.1.0.0/16"`, "LoadCredential=token:/etc/token"},
		"darwin":  {"<string>--max-rate</string>\n\t\t<string>1G</string>", "<string>/etc/token</string>"},
		"windows": {`"--max-rate" "1G"`, `"/etc/token"`},
	} {
		var out, err bytes.Buffer
		args := []string{"agent", "install", "--token-file", "/etc/../etc/token", "--max-rate", "1G", "--allow-target", "10.0.0.7,10.1.0.0/16", "--print=" + system}
		if status := Main(args, nil, &out, &err); status != base.ExitDone || err.Len() > 0 {
			t.Errorf("status %d, %s", status, err.String())
		}
		for _, w := range want {
			if !strings.Contains(out.String(), w) {
				t.Errorf("%s lacks %s", out.String(), w)
			}
		}
	}
}

// An agent that waits for its coordinator for months writes a line for each change, not for each try.
func TestLinesOfAnAgentThatTriesAgain(t *testing.T) {
	var said bytes.Buffer
	tell := logStates(&said)
	refused, away := errors.New("connection refused"), errors.New("no route to host")
	for range 3 {
		for range 1000 {
			tell(bus.Away, refused)
		}
		tell(bus.Away, away)
		tell(bus.Waiting, nil)
		tell(bus.Working, nil)
	}
	if lines := strings.Count(said.String(), "\n"); lines != 3*4 || strings.Count(said.String(), refused.Error()) != 3 {
		t.Errorf("%d lines:\n%.1000s", lines, said.String())
	}
}
