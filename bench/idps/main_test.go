package main

import (
	"testing"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/idps"
	"github.com/hopbench/hopbench/internal/lab"
)

// What is compared differs in one thing: each path has one link that is a
// process, and that of the idps alone can inspect.
func TestPathsAreComparable(t *testing.T) {
	e, err := experiment.Load("idpsbench.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range questions {
		if paths := pathsOf(e, q); len(paths) != 2 || paths[0].Name != q.baseline || !paths[0].Baseline || paths[1].Baseline {
			t.Errorf("%+v is of the paths %+v", q, paths)
		}
	}
	topology, paths, err := lab.FromExperiment(e)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		name     string
		hops     int
		inspects bool
	}{{without, 1, false}, {router, 2, false}, {off, 2, true}} {
		p := paths[i]
		var cables []lab.Link
		for _, l := range topology.Links {
			if l.Cable != nil && l.B.Address.Addr() == p.Listen {
				cables = append(cables, l)
			}
		}
		if p.Name != want.name || len(p.Hops) != want.hops || len(cables) != 1 || (cables[0].IDPS != nil) != want.inspects {
			t.Errorf("path %s: %d hops, cables %+v", p.Name, len(p.Hops), cables)
			continue
		}
		if in := cables[0].IDPS; in != nil && in.Mode != idps.Off {
			t.Errorf("the idps is in mode %s", in.Mode)
		}
	}
	if n := len(idps.Builtin().Rules); n < 1000 {
		t.Errorf("%d rules are built in", n)
	}
}
