package runner_test

import (
	"testing"

	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testutil"
)

const tunnelled = `format: hopbench.experiment/1
name: tunnelled
endpoints: [{name: a}, {name: b}]
source: a
destination: b
baseline: plain
blocks: 1
paths:
  - {name: plain, hops: [{type: firewall, name: fw}]}
  - {name: inside, tunnel: {type: vxlan}, hops: [{type: firewall, name: fw}, {type: firewall, name: many, rules: &many 5000}, {type: firewall, name: more, rules: *many}]}
tests: [{name: bulk, kind: tcp}]
`

// A firewall below a tunnel that compares every packet with its rules is named, whether the
// file says how many these are or not. What the file says of it is nothing to real hosts.
func TestRulesBelowATunnel(t *testing.T) {
	for _, bed := range []*store.File{nil, {Name: "office.yaml"}} {
		r, err := runner.Result(store.Head{Experiment: tunnelled, File: "tunnelled.yaml", Seed: 3, TestbedFile: bed}, nil)
		testutil.OK(t, err)
		rules := map[string]int{}
		for _, n := range r.Notes {
			if n.Code == result.NoteTunnelMeetsRules {
				rules[n.Path+" "+n.Name] = n.Count
			}
		}
		if lab := bed == nil; lab && (len(rules) != 3 || rules["inside fw"] != 100 || rules["inside many"] != 5000 || rules["inside more"] != 5000) || !lab && len(rules) > 0 {
			t.Errorf("in a lab %v: %v", lab, rules)
		}
	}
}
