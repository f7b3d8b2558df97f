package main

import (
	"testing"

	"github.com/hopbench/hopbench/internal/testbed/inventory"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestTestbedSchemaAcceptsGoodFiles(t *testing.T) {
	schema := compile(t, inventory.Schema())
	for _, pattern := range []string{"../testbed/inventory/testdata/good/*.yaml", "../testbed/*/start.yaml"} {
		for file, text := range testutil.Files(t, pattern) {
			if _, err := check(schema, text); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}

func TestTestbedSchemaRefusesBadFiles(t *testing.T) {
	refuses(t, compile(t, inventory.Schema()), "../testbed/inventory/testdata/bad/*.yaml", []string{
		// names that name nothing, or occur twice
		"set-unknown-switch", "set-unknown-value", "unknown-hop", "no-switches", "unused", "unused-hop", "hop-twice", "agent-of-nobody",
		"restore-nothing", "canary-of-no-value", "experiment-lacks-endpoint", "experiment-lacks-path", "experiment-ping-on-every-path", "experiment-iperf3-in-a-fleet",
		// one value against another
		"two-of-one-reach", "both-local", "tls-without-token", "token-for-nobody", "binary-without-ssh", "experiment-source-serves",
		"snmp-password-without-user", "snmp-privacy-without-user",
		"set-missing", "set-missing-at-the-usual-port", "set-missing-where-it-listens", "set-missing-at-the-servers-port", "one-agent-twice", "families-from", "families-listen", "listen-of-serve", "loopback", "agent-of-serve",
		"trace-back-by-a-server", "proof-by-device", "untraced-and-switched", "hops-of-an-untraced",
		"fleet-queue-empty", "fleet-queue-servicebus", "canary-lacks-a-value", "canary-alike", "values-of-one-spelling", "same-command", "shell-syntax", "no-program", "from-itself", "link-local", "on-a-link",
		// one key of a broker against another
		"fleet-ca", "fleet-cluster-listens",
		// what an address, a name or a size may be
		"port-too-large", "port-zero", "ssh-option", "ssh-option-user", "ssh-password", "ssh-path", "tls-user", "ipv6-without-brackets",
		"mapped-address", "bad-address", "multicast", "unspecified-listen", "from-with-port", "token-of-another-home",
		"prometheus-password", "prometheus-query-in-url", "snmp-bad-address",
		"egress-zero", "expect-mtu", "settle-too-long", "timeout-too-short",
	})
}

// FuzzTestbedSchemaAgrees: an editor never marks as wrong what the loader accepts.
func FuzzTestbedSchemaAgrees(f *testing.F) {
	for _, pattern := range []string{"../testbed/inventory/testdata/*/*.yaml", "../testbed/*/start.yaml"} {
		for _, text := range testutil.Files(f, pattern) {
			f.Add(text)
		}
	}
	schema := compile(f, inventory.Schema())
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := inventory.Load("my.yaml", text, nil); err != nil {
			return
		}
		if _, err := check(schema, text); err != nil {
			t.Errorf("the loader accepts what the schema does not: %v\n%s", err, text)
		}
	})
}
