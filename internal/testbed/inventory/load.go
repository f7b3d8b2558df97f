package inventory

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/strict"
)

// Bounds and defaults of switches.
const (
	defaultSettle  = time.Second
	maxSettle      = time.Hour
	defaultTimeout = 2 * time.Minute
	minTimeout     = time.Second
	maxTimeout     = 6 * time.Hour
	// Packets are at least what IPv4 carries (RFC 791), and at most what it can say.
	minPathMTUBytes = 68
	maxPathMTUBytes = 65535
)

// Load reads a testbed file, and checks that it says where everything of an experiment is,
// unless that is nil. File names it in messages, and its folder is that of relative names.
// What the file has wrong comes back as strict.Errors, all at once.
func Load(file string, text []byte, e *experiment.Experiment) (*Inventory, error) {
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return nil, fmt.Errorf("find the folder of %s: %w", file, err)
	}
	d, f := strict.New(file, text, strict.Document{
		Format: Format, Noun: "testbed", Top: "the testbed", Schema: "hopbench testbed schema", Texts: TextRules(), Takes: takes,
	}), new(File)
	if !d.Decode(f) {
		return nil, d.Err()
	}
	l := &loader{Decoder: d, file: f, dir: dir, e: e}
	inventory := l.inventory()
	if e != nil {
		l.against(e)
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	return inventory, nil
}

// loader turns a decoded file into an Inventory and checks what the file's types
// cannot say.
type loader struct {
	*strict.Decoder
	file *File
	dir  string
	e    *experiment.Experiment // nil for none
}

func (l *loader) inventory() *Inventory {
	f := l.file
	in := &Inventory{Kind: string(f.Kind), Name: string(f.Name), Title: string(f.Title), TokenFile: l.fileName(&f.TokenFile), Dir: l.dir}
	for i := range f.Endpoints {
		in.Endpoints = append(in.Endpoints, l.endpoint(&f.Endpoints[i]))
	}
	l.reached()
	for i := range f.Paths {
		in.Paths = append(in.Paths, l.path(&f.Paths[i]))
	}
	for i := range f.Switches {
		in.Switches = append(in.Switches, l.toggle(&f.Switches[i]))
	}
	for i := range f.Hops {
		in.Hops = append(in.Hops, l.hop(&f.Hops[i]))
	}
	l.sets()
	l.sameWay(in.Paths)
	l.crossed()
	if row := kindRowOf(string(f.Kind)); row.name != "" {
		l.ofKind(row)
		if row.load != nil {
			row.load(l, in)
		}
	}
	return in
}

// fileName is where a file is: relative names belong to the folder of the testbed
// file, and ~/ is the user's home.
func (l *loader) fileName(field *FileText) string {
	name := string(*field)
	if rest, home := strings.CutPrefix(name, "~/"); home {
		dir, err := os.UserHomeDir()
		if err != nil {
			l.Wrong(field, "write the name in full", "%q is in a home that is not known: %v", strict.Clip(name), err)
		}
		return filepath.Join(dir, rest)
	}
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(l.dir, name)
}

func (l *loader) endpoint(f *strict.Entry[strict.NameText, FileEndpoint]) Endpoint {
	e := Endpoint{
		Name: string(f.Key), Reach: strict.Parsed(parseReach, f.Value.Reach),
		EgressBitsPerSecond: strict.Parsed(quantity.ParseRate, f.Value.EgressRate), Binary: l.fileName(&f.Value.Binary),
	}
	if l.Written(&f.Value.EgressRate) && f.Value.EgressRate != "" && e.EgressBitsPerSecond == 0 {
		l.Wrong(&f.Value.EgressRate, "leave it out if it is not known", "an endpoint that sends nothing measures nothing")
	}
	if l.Written(&f.Value.Binary) && f.Value.Reach != "" && e.Reach.Scheme != ReachSSH {
		l.Misplaced(&f.Value.Binary, "leave it out", "only ssh copies a binary, and endpoint %q is reached by %s", e.Name, e.Reach.Scheme)
	}
	return e
}

// reached checks how all endpoints are reached, and what proves it.
func (l *loader) reached() {
	first := map[Reach]*strict.Entry[strict.NameText, FileEndpoint]{}
	var proven *strict.Entry[strict.NameText, FileEndpoint]
	unread := false
	for i := range l.file.Endpoints {
		e := &l.file.Endpoints[i]
		if e.Value.Reach == "" {
			unread = true
			continue
		}
		r := strict.Parsed(parseReach, e.Value.Reach)
		if r.Scheme == ReachTLS || r.Scheme == ReachServe {
			proven = e
		}
		if other := first[r.whole()]; other != nil {
			remedy := fmt.Sprintf("correct one of them; the other is at line %d", l.Line(&other.Value.Reach))
			if r.Scheme == ReachLocal {
				remedy = "have the far one reached by ssh://, tls:// or serve://"
			}
			l.Wrong(&e.Value.Reach, remedy, "endpoints %q and %q are the same: %s", other.Key, e.Key, strict.Clip(string(e.Value.Reach)))
			continue
		}
		first[r.whole()] = e
	}
	switch {
	case proven != nil && !l.Written(&l.file.TokenFile):
		l.Wrong(&proven.Value.Reach, "add token_file: ~/.hopbench-token, with the token that the far end was started with",
			"endpoint %q has to prove a token, and the file names none", proven.Key)
	case proven == nil && !unread && l.Written(&l.file.TokenFile):
		l.Misplaced(&l.file.TokenFile, "leave it out", "no endpoint is reached by tls:// or serve://, so nobody proves the token")
	}
}

// serves says that an endpoint is reached by serve://.
func serves(f FileEndpoint) bool { return strict.Parsed(parseReach, f.Reach).Scheme == ReachServe }

// server is the endpoint that is reached by serve:// and that paths lead to, nil for none:
// the destination of the experiment, or without an experiment the only one.
func (l *loader) server() *strict.Entry[strict.NameText, FileEndpoint] {
	var servers []*strict.Entry[strict.NameText, FileEndpoint]
	for i := range l.file.Endpoints {
		end := &l.file.Endpoints[i]
		if serves(end.Value) && (l.e == nil || l.e.Destination == string(end.Key)) {
			servers = append(servers, end)
		}
	}
	if len(servers) != 1 {
		return nil
	}
	return servers[0]
}

// onThisMachine says whether all endpoints are, so that loopback leads from one to the
// other.
func (l *loader) onThisMachine() bool {
	for _, e := range l.file.Endpoints {
		r := strict.Parsed(parseReach, e.Value.Reach)
		ip, err := netip.ParseAddr(r.Host)
		if r.Scheme != ReachLocal && r.Host != "localhost" && (err != nil || !ip.IsLoopback()) {
			return false
		}
	}
	return true
}

func (l *loader) path(f *strict.Entry[strict.NameText, FilePath]) Path {
	v := &f.Value
	p := Path{
		Name: string(f.Key), To: strict.Parsed(parseTarget, v.To).address, Network: strict.Parsed(parseTarget, v.To).network, Listen: strict.Parsed(parseAddress, v.Listen),
		From: strict.Parsed(parseIP, v.From), Device: string(v.Device), DSCP: -1, Proof: result.PathProof(v.Proof), Hops: kind.Texts(v.Hops),
	}
	if l.Written(&v.DSCP) {
		p.DSCP = v.DSCP
	}
	if e := l.server(); e != nil && p.To.IsValid() && p.To.Port() == 0 {
		p.To = netip.AddrPortFrom(p.To.Addr(), strict.Parsed(parseReach, e.Value.Reach).Port) // 0 is the usual one
	}
	if p.To.Addr().IsLoopback() && !l.onThisMachine() {
		l.Wrong(&v.To, "write the address that the source reaches it at", "path %q leads to %v, which is the source itself", f.Key, p.To.Addr())
	}
	if p.To.IsValid() && p.From.IsValid() && p.To.Addr().Is4() != p.From.Is4() {
		l.Wrong(&v.From, "write both as IPv4 or both as IPv6 addresses", "path %q begins at %v and leads to %v", f.Key, p.From, p.To.Addr())
	}
	if p.To.IsValid() && p.Listen.IsValid() && p.To.Addr().Is4() != p.Listen.Addr().Is4() {
		l.Wrong(&v.Listen, "write both as IPv4 or both as IPv6 addresses", "path %q leads to %v, and its destination listens on %v", f.Key, p.To.Addr(), p.Listen.Addr())
	}
	if p.From.IsValid() && p.From == p.To.Addr() && !l.onThisMachine() {
		l.Wrong(&v.From, "write the address of the source here and that of the destination in to:", "path %q leads from %v to itself", f.Key, p.From)
	}
	if e := l.server(); e != nil && l.Written(&v.Listen) {
		l.Misplaced(&v.Listen, "leave it out, or have it reached by tls:// or ssh://", "endpoint %q listens where hopbench serve was told to", e.Key)
	}
	if e := l.server(); e != nil && p.Proof == result.ProofTraceBack {
		l.Wrong(&v.Proof, "leave it out, or have it reached by tls:// or ssh://", "endpoint %q is a server, which traces nobody", e.Key)
	}
	if p.Proof == result.ProofTrace && p.Device != "" {
		l.Wrong(&v.Proof, "leave it out, or write trace_back", "a trace of the source follows the routes, which interface %q of path %q need not", strict.Clip(p.Device), f.Key)
	}
	if v.Expect != nil {
		p.Expect = Expectation{
			Hops: v.Expect.Hops, ReceivedTTL: v.Expect.ReceivedTTL, PathMTUBytes: int(strict.Parsed(quantity.ParseBytes, v.Expect.PathMTU)),
		}
		if p.Expect.Hops > 0 && p.Proof == result.ProofTTL {
			l.Wrong(&v.Expect.Hops, "leave it out, or expect a received_ttl", "path %q expects hops, and is not to be traced", f.Key)
		}
		if n := p.Expect.PathMTUBytes; v.Expect.PathMTU != "" && (n < minPathMTUBytes || n > maxPathMTUBytes) {
			l.Wrong(&v.Expect.PathMTU, fmt.Sprintf("write a size from %dB to %dB", minPathMTUBytes, maxPathMTUBytes), "a path MTU of %s cannot be", v.Expect.PathMTU)
		}
	}
	for i := range v.Set {
		if p.Set == nil {
			p.Set = map[string]string{}
		}
		p.Set[string(v.Set[i].Key)] = string(v.Set[i].Value)
	}
	return p
}

func (l *loader) toggle(f *strict.Entry[strict.NameText, FileSwitch]) Switch {
	v := &f.Value
	s := Switch{
		Name: string(f.Key), Values: map[string][]string{}, Read: kind.Texts(v.Read), Proof: ProofTrace, Verify: kind.Texts(v.Verify),
		Settle: l.Between(&v.Settle, defaultSettle, 0, maxSettle), Timeout: l.Between(&v.Timeout, defaultTimeout, minTimeout, maxTimeout),
		Restore: string(v.Restore),
	}
	l.command(v.Read, "read of switch %q", f.Key)
	l.command(v.Verify, "verify of switch %q", f.Key)
	if v.Proof != "" {
		s.Proof = Proof(v.Proof)
	}
	for i := range v.Values {
		value := &v.Values[i]
		s.Values[string(value.Value)] = kind.Texts(value.Command)
		l.command(value.Command, "value %q of switch %q", value.Value, f.Key)
		for j := range i {
			other := &v.Values[j]
			switch {
			case other.Value == "" || value.Value == "" || other.Value == value.Value:
			case strings.EqualFold(string(other.Value), string(value.Value)):
				l.Wrong(&value.Value, "choose another", "values %q and %q of switch %q differ in the case of letters only", other.Value, value.Value, f.Key)
			case len(value.Command) > 0 && slices.Equal(value.Command, other.Command):
				l.Wrong(&value.Command, "correct one of them", "values %q and %q of switch %q have the same command, which cannot set both", other.Value, value.Value, f.Key)
			}
		}
	}
	l.names(&v.Restore, v.Values, "restore of switch %q", f.Key)
	l.proof(f, &s)
	return s
}

// command checks that a command can be run as it stands.
func (l *loader) command(args []ArgText, format string, of ...any) {
	for i := range args {
		what := fmt.Sprintf(format, of...)
		switch a := args[i]; {
		case i == 0 && a == "" && l.Scalar(&args[i]) == "":
			l.Wrong(&args[i], "write the program first", "the command of %s names no program", what)
		case slices.Contains([]ArgText{"|", "||", "&&", ";", ">", ">>", "2>&1"}, a):
			l.Wrong(&args[i], "write [sh, -c, '…'] if one is meant", "the command of %s has %q, and no shell reads it", what, string(a))
		}
	}
}

// names checks that a field names a value.
func (l *loader) names(field *ValueText, values FileValues, format string, args ...any) {
	var known []string
	for i := range values {
		if values[i].Value == *field {
			return
		}
		if values[i].Value != "" {
			known = append(known, string(values[i].Value))
		}
	}
	if *field != "" && len(known) > 0 {
		l.Wrong(field, strict.Instead(string(*field), known), fmt.Sprintf(format, args...)+" is %q, which is none of its values", *field)
	}
}

// proof checks that a switch has what its proof needs, and nothing of another's.
func (l *loader) proof(f *strict.Entry[strict.NameText, FileSwitch], s *Switch) {
	v := &f.Value
	if s.Proof == ProofCommand && !l.Written(&v.Verify) {
		l.Wrong(&v.Proof, "add verify: [./fw.sh, verify]; the value is appended", "switch %q is to be proven by a command, and has none", f.Key)
	}
	if s.Proof != ProofCommand && l.Written(&v.Verify) {
		l.Misplaced(&v.Verify, "leave it out, or write proof: command", "switch %q is proven by %s, which asks no command", f.Key, s.Proof)
	}
	if s.Proof == ProofCanary && !l.Written(&v.Canary) {
		l.Wrong(&v.Proof, "add canary: {off: passed, deny: reset}, with the answer of each value", "switch %q is to be proven by a canary, and no answer is known", f.Key)
	}
	if s.Proof != ProofCanary && l.Written(&v.Canary) {
		l.Misplaced(&v.Canary, "leave it out, or write proof: canary", "switch %q is proven by %s, which sends no canary", f.Key, s.Proof)
	}
	if len(v.Canary) == 0 {
		return
	}
	s.Canary = map[string]CanaryAnswer{}
	for i := range v.Canary {
		answer := &v.Canary[i]
		l.names(&answer.Value, v.Values, "canary of switch %q", f.Key)
		s.Canary[string(answer.Value)] = CanaryAnswer(answer.Answer)
	}
	// A value that no path has need not be told from the others.
	first := map[CanaryAnswer]ValueText{}
	for i := range v.Values {
		value := v.Values[i].Value
		if value == "" || !l.isSet(f.Key, value) {
			continue
		}
		answer, known := s.Canary[string(value)]
		other, taken := first[answer]
		switch {
		case !known:
			l.Wrong(&v.Canary, fmt.Sprintf("add %s: passed, reset or silent", value), "canary of switch %q has no answer for %q", f.Key, value)
		case answer == "":
		case taken:
			l.Wrong(&v.Canary, "write proof: command, which can tell them apart", "canary of switch %q is %s with %q and with %q", f.Key, answer, other, value)
		default:
			first[answer] = value
		}
	}
}

// isSet says whether a path has the value of a switch.
func (l *loader) isSet(name strict.NameText, value ValueText) bool {
	for i := range l.file.Paths {
		for _, set := range l.file.Paths[i].Value.Set {
			if set.Key == name && set.Value == value {
				return true
			}
		}
	}
	return false
}

// sets checks what paths set against the switches that there are.
func (l *loader) sets() {
	names := strict.Keys(l.file.Switches)
	used := map[strict.NameText]bool{}
	for i := range l.file.Paths {
		p := &l.file.Paths[i]
		for j := range p.Value.Set {
			set := &p.Value.Set[j]
			used[set.Key] = true
			if len(names) == 0 && !l.Written(&l.file.Switches) {
				l.Wrong(&set.Key, "add it under switches:", "path %q sets switch %q, and the file has no switches", p.Key, set.Key)
				continue
			}
			l.Refers(&set.Key, fmt.Sprintf("set of path %q:", p.Key), "switch", names)
			for k := range l.file.Switches {
				if s := &l.file.Switches[k]; s.Key == set.Key {
					if byTrace := s.Value.Proof == "" || Proof(s.Value.Proof) == ProofTrace; byTrace && result.PathProof(p.Value.Proof) == result.ProofTTL {
						l.Wrong(&p.Value.Proof, "leave it out, or give the switch proof: canary or proof: command", "path %q is not to be traced, and a trace is the proof of switch %q", p.Key, s.Key)
					}
					l.names(&set.Value, s.Value.Values, "path %q: switch %q", p.Key, s.Key)
				}
			}
		}
	}
	for _, name := range names {
		if *name != "" && !used[*name] {
			l.Wrong(name, fmt.Sprintf("add set: {%s: VALUE} to the paths that it selects, or leave it out", *name), "no path sets switch %q", *name)
		}
	}
}

// sameWay checks that of paths with the same addresses each says how the switches of
// the others are to stand, for its packets would go where the path before it left them,
// and that the same proves all of them.
func (l *loader) sameWay(paths []Path) {
	for i, p := range paths {
		other := slices.IndexFunc(paths[:i], func(q Path) bool { return len(q.Set) > 0 && q.SameAddresses(p) && q.Proof != p.Proof })
		if other >= 0 && len(p.Set) > 0 && p.To.IsValid() {
			l.Wrong(&l.file.Paths[i].Key, "write the same proof: at both, or at neither", "paths %q and %q have the same addresses and another proof, and traces of different ways cannot be compared", paths[other].Name, p.Name)
		}
		for k := range l.file.Switches {
			name := l.file.Switches[k].Key
			if _, sets := p.Set[string(name)]; sets || p.Name == "" || !p.To.IsValid() {
				continue
			}
			other := slices.IndexFunc(paths, func(q Path) bool {
				_, sets := q.Set[string(name)]
				return sets && q.Name != "" && p.SameAddresses(q)
			})
			if other >= 0 {
				l.Wrong(&l.file.Paths[i].Key, fmt.Sprintf("add set: {%s: VALUE} to it, or an address of its own", name),
					"path %q has the addresses of path %q and does not set switch %q", p.Name, paths[other].Name, name)
			}
		}
	}
}
