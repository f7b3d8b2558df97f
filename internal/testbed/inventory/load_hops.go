package inventory

import (
	"fmt"
	"reflect"

	"github.com/hopbench/hopbench/internal/strict"
)

// hop reads where the figures of a hop come from.
func (l *loader) hop(f *strict.Entry[strict.NameText, FileHop]) Hop {
	h, v := Hop{Name: string(f.Key)}, &f.Value
	sources := 0
	for _, written := range []bool{l.Written(&v.Agent), l.Written(&v.Prometheus), l.Written(&v.SNMP), l.Written(&v.CSV)} {
		if written {
			sources++
		}
	}
	if sources != 1 && l.Written(v) {
		l.Wrong(v, "write one of agent, prometheus, snmp or csv", "hop %q has %d sources of its figures", f.Key, sources)
	}
	if m := v.Agent; m != nil {
		h.Agent = &AgentMeter{Endpoint: string(m.Endpoint), Interface: string(m.Interface)}
		l.metered(f, m)
	}
	if m := v.Prometheus; m != nil {
		h.Prometheus = &PrometheusMeter{
			URL:          strict.Parsed(parseURL, m.URL),
			ForwardBytes: string(m.ForwardBytes), BackwardBytes: string(m.BackwardBytes),
			ForwardPackets: string(m.ForwardPackets), BackwardPackets: string(m.BackwardPackets),
			DroppedPackets: string(m.DroppedPackets), CPUSeconds: string(m.CPUSeconds),
		}
		asked := false
		for i, q := 1, reflect.ValueOf(m).Elem(); i < q.NumField(); i++ {
			asked = asked || l.Written(q.Field(i).Addr().Interface())
		}
		if !asked {
			l.Wrong(m, "add one as in forward_bytes: 'fw_bytes_total{dir=\"fwd\"}'", "hop %q asks Prometheus nothing", f.Key)
		}
	}
	if m := v.SNMP; m != nil {
		h.SNMP = &SNMPMeter{Address: strict.Parsed(parseHostPort, m.Address), Interface: string(m.Interface), CommunityFile: l.fileName(&m.CommunityFile),
			User: string(m.User), AuthFile: l.fileName(&m.AuthFile), PrivacyFile: l.fileName(&m.PrivacyFile)}
		user, community := l.Written(&m.User), l.Written(&m.CommunityFile)
		switch {
		case !user && !community && l.Written(m):
			l.Wrong(m, "add user: hopbench with auth_file: ~/.snmp-auth (SNMPv3), or community_file: ~/.snmp-community (SNMPv2c)", "hop %q is asked by SNMP, and the file says neither a user nor a community", f.Key)
		case user && community:
			l.Misplaced(&m.CommunityFile, "leave it out, or write no user", "hop %q is asked by SNMPv3, which has no community", f.Key)
		case user && !l.Written(&m.AuthFile):
			l.Wrong(&m.User, "add auth_file: ~/.snmp-auth", "user %q of hop %q has no password", strict.Clip(string(m.User)), f.Key)
		case !user && l.Written(&m.AuthFile):
			l.Misplaced(&m.AuthFile, "leave it out, or write a user and no community_file", "hop %q is asked by SNMPv2c, which has no password", f.Key)
		case !user && l.Written(&m.PrivacyFile):
			l.Misplaced(&m.PrivacyFile, "leave it out, or write a user and no community_file", "hop %q is asked by SNMPv2c, which encrypts nothing", f.Key)
		}
	}
	if m := v.CSV; m != nil {
		h.CSV = &CSVMeter{File: l.fileName(&m.File)}
	}
	return h
}

// metered checks that the endpoint of an appliance has an agent.
func (l *loader) metered(f *strict.Entry[strict.NameText, FileHop], m *FileAgentMeter) {
	for i := range l.file.Endpoints {
		e := &l.file.Endpoints[i]
		if e.Key == m.Endpoint && m.Endpoint != "" && strict.Parsed(parseReach, e.Value.Reach).Scheme == ReachServe {
			l.Wrong(&m.Endpoint, "have it reached by ssh:// or tls://", "endpoint %q of hop %q runs hopbench serve, which tells nothing of its interfaces", e.Key, f.Key)
		}
	}
	l.Refers(&m.Endpoint, fmt.Sprintf("endpoint of hop %q:", f.Key), "endpoint", strict.Keys(l.file.Endpoints))
}

// crossed checks which hops the paths have.
func (l *loader) crossed() {
	names := strict.Keys(l.file.Hops)
	used := map[strict.NameText]bool{}
	for i := range l.file.Paths {
		p := &l.file.Paths[i]
		twice := map[strict.NameText]bool{}
		for j := range p.Value.Hops {
			name := &p.Value.Hops[j]
			used[*name] = true
			switch {
			case *name == "":
			case twice[*name]:
				l.Wrong(name, "leave it out", "path %q has hop %q twice", p.Key, *name)
			case len(names) == 0 && !l.Written(&l.file.Hops):
				l.Wrong(name, "add it under hops:", "path %q has hop %q, and the file says nothing of hops", p.Key, *name)
			default:
				l.Refers(name, fmt.Sprintf("hops of path %q:", p.Key), "hop", names)
			}
			twice[*name] = true
		}
	}
	for _, name := range names {
		if *name != "" && !used[*name] {
			l.Wrong(name, fmt.Sprintf("add hops: [%s] to the paths that cross it, or leave it out", *name), "no path has hop %q", *name)
		}
	}
}
