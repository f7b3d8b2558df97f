package cli

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
	"github.com/hopbench/hopbench/internal/testutil"
)

// Every field of what a check prints is in docs/data-format.md.
func TestTestbedCheckIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/data-format.md")
	testutil.OK(t, err)
	_, section, found := strings.Cut(string(text), "\n### TestbedCheck\n")
	if !found {
		t.Fatal("there is no section TestbedCheck")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var visit func(reflect.Type)
	visit = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice:
			visit(typ.Elem())
		case reflect.Struct:
			for i := range typ.NumField() {
				name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
				if !strings.Contains(section, "`"+name+"`") {
					t.Errorf("the section lacks %q of %s", name, typ.Name())
				}
				visit(typ.Field(i).Type)
			}
		}
	}
	visit(reflect.TypeFor[testbedCheck]())
}

// What the commands do with a kind of testbed is known for every kind that a file can have.
func TestTestbedKinds(t *testing.T) {
	for _, name := range inventory.Kinds() {
		k := testbedKindOf(name)
		if k.build == nil || k.start == nil {
			t.Errorf("%s: a run builds it: %v; there is a file to start with: %v", name, k.build != nil, k.start != nil)
			continue
		}
		if status, out, problems := command(t, "testbed", "show", name); status != base.ExitDone || out != k.start() {
			t.Errorf("testbed show %s: status %d: %s%s", name, status, out, problems)
		}
	}
	for _, k := range testbedKinds() {
		if k.start != nil && !slices.Contains(inventory.Kinds(), k.name) {
			t.Errorf("no file can have kind: %s", k.name)
		}
	}
	if status, out, problems := command(t, "testbed", "show", result.TestbedLab); status != base.ExitUsage || !strings.Contains(problems, kind.Either(inventory.Kinds())) {
		t.Errorf("a lab has no file: status %d: %s%s", status, out, problems)
	}
}

// A fleet that joins at a cluster says what its administrator adds, and where agents join; and
// only a fleet does.
func TestTestbedJoinCluster(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fleet.yaml")
	testutil.OK(t, os.WriteFile(file, []byte(`format: hopbench.testbed/1
name: office
kind: fleet
broker: {join_file: office.join}
endpoints: {vm1: {reach: "fleet://role=client"}, vm2: {reach: "fleet://role=server"}}
paths: {direct: {to: 10.0.0.0/24}}
`), 0o600))
	status, out, problems := command(t, "testbed", "join", file, "--nats", "tls://nats-1,tls://nats-2:4300")
	if status != base.ExitDone {
		t.Errorf("status %d, %s", status, problems)
	}
	for _, want := range []string{"--join tls://nats-1:4222,tls://nats-2:4300 ", "auth_callout { issuer: A", "users: [ { nkey: U"} {
		if !strings.Contains(out, want) {
			t.Errorf("%s lacks %q", out, want)
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"testbed", "join", file, "--nats", "nats-1"}, "tls://nats-1:4222,tls://nats-2:4222"},
		{[]string{"testbed", "join", file}, "was made for another broker"},
		{[]string{"run", "aa-null", "--nats", "tls://nats-1", "--out", filepath.Join(t.TempDir(), "run")}, "--nats is for fleets"},
	} {
		if status, _, problems := command(t, c.args...); status == base.ExitDone || !strings.Contains(problems, c.want) {
			t.Errorf("%v: status %d, %s", c.args, status, problems)
		}
	}
}
