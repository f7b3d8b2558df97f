package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
)

// design is an experiment of this program. The first path is the baseline.
type design struct {
	name string
	// client and server are further keys of the endpoints, such as
	// "receive_window: 64kB".
	client, server string
	paths          []path
	tests          []test
	blocks         int
	pairs          int  // of hosts on each path, 0 for one
	vxlan          bool // each path is in a tunnel
}

// path is a name and the list of its hops, without the brackets.
type path struct{ name, hops string }

// test is a name and the other keys of a test, without the braces.
type test struct{ name, keys string }

// text is the experiment file.
func (d design) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "format: hopbench.experiment/1\nname: %s\nblocks: %d\nendpoints:\n", d.name, d.blocks)
	for _, end := range [][2]string{{"client", d.client}, {"server", d.server}} {
		fmt.Fprintf(&b, "  - {%s}\n", joined("name: "+end[0], end[1]))
	}
	if d.pairs > 0 {
		fmt.Fprintf(&b, "pairs: %d\n", d.pairs)
	}
	fmt.Fprintf(&b, "source: client\ndestination: server\nbaseline: %s\npaths:\n", d.paths[0].name)
	for i, p := range d.paths {
		tunnel := ""
		if d.vxlan {
			tunnel = fmt.Sprintf("tunnel: {type: vxlan, id: %d}", i+1)
		}
		fmt.Fprintf(&b, "  - {%s}\n", joined(fmt.Sprintf("name: %s, hops: [%s]", p.name, p.hops), tunnel))
	}
	b.WriteString("tests:\n")
	for _, t := range d.tests {
		fmt.Fprintf(&b, "  - {%s}\n", joined("name: "+t.name, t.keys))
	}
	return b.String()
}

func joined(a, b string) string {
	if b == "" {
		return a
	}
	return a + ", " + b
}

// pair is the same experiment with two of its paths, the first the baseline.
func (d design) pair(baseline, name string) design {
	all := d.paths
	d.paths = nil
	for _, want := range []string{baseline, name} {
		d.paths = append(d.paths, all[slices.IndexFunc(all, func(p path) bool { return p.name == want })])
	}
	return d
}

// reversed has its paths built in the opposite order.
func (d design) reversed() design {
	d.paths = slices.Clone(d.paths)
	slices.Reverse(d.paths)
	return d
}

// trialsOf are the trials on the paths of d.
func (d design) trialsOf(all []measurement.Trial) (own []measurement.Trial) {
	for _, t := range all {
		if slices.ContainsFunc(d.paths, func(p path) bool { return p.name == t.Path }) {
			own = append(own, t)
		}
	}
	return own
}
