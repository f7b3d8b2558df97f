package experiment

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/strict"
)

// Bounds of links and tunnels.
const (
	// minLinkMTU is RFC 791's minimum, maxLinkMTU what a TAP device takes.
	minLinkMTU     = 68
	maxLinkMTU     = 65_521
	defaultLinkMTU = 1500
	// maxQueueBytes is what a link emulator can hold.
	maxQueueBytes = 1 << 30
	// minTunnelMTU leaves room for a test inside: that of RFC 791 for a whole
	// packet that need not be put together from fragments.
	minTunnelMTU = 576
	// vxlanOverhead is of IPv4, UDP, VXLAN and inner Ethernet headers (RFC 7348,
	// section 5); wireGuardOverhead of IPv4, UDP and a transport message with
	// its tag, and up to 15 bytes of padding to a multiple of 16 (WireGuard:
	// Next Generation Kernel Network Tunnel, section 5.4.6), rounded as wg-quick
	// does.
	vxlanOverhead     = 50
	wireGuardOverhead = 60
)

// paths reads all paths and then those that are variants of another.
func (l *loader) paths(files []FilePath) []Path {
	paths := make([]Path, len(files))
	for i := range files {
		paths[i] = l.path(&files[i])
	}
	for i := range files {
		f := &files[i]
		if l.Written(&f.VariantOf) {
			l.variant(f, &paths[i], files, paths)
			continue
		}
		if l.Written(&f.Bypass) {
			l.Misplaced(&f.Bypass, "name the path with the hops in variant_of, or leave bypass out", "path %q bypasses hops but is a variant of no other", f.Name)
		}
		if l.Written(&f.Settle) {
			l.Misplaced(&f.Settle, "leave it out", "path %q is not switched, so nothing settles", f.Name)
		}
	}
	l.tunnels(files, paths)
	return paths
}

// variant completes a path that is a variant of another.
func (l *loader) variant(f *FilePath, p *Path, files []FilePath, paths []Path) {
	if len(f.Hops) > 0 || f.Tunnel != nil || l.Written(&f.VSwitch) {
		l.Wrong(&f.VariantOf, "leave out hops, tunnel and vswitch, or variant_of",
			"path %q has hops, a tunnel or an attachment of its own and is a variant of %q", f.Name, f.VariantOf)
		return
	}
	l.Refers(&f.VariantOf, "variant_of", "path", l.pathNames())
	p.VariantOf, p.Settle = string(f.VariantOf), l.Between(&f.Settle, defaultSettle, time.Millisecond, maxSettle)
	i := slices.IndexFunc(files, func(other FilePath) bool { return other.Name == f.VariantOf })
	switch {
	case i < 0:
		return
	case files[i].VariantOf != "":
		l.Wrong(&f.VariantOf, "name the path that has the hops", "path %q is itself a variant of another", f.VariantOf)
		return
	case len(f.Bypass) == 0:
		l.Wrong(&f.VariantOf, `say which hops it bypasses, as in bypass: [gateway]`, "path %q is the same as %q in every respect", f.Name, f.VariantOf)
	}
	p.Hops, p.Tunnel, p.SoftwareSwitch = paths[i].Hops, paths[i].Tunnel, paths[i].SoftwareSwitch
	for j := range f.Bypass {
		if f.Bypass[j] != "" && slices.Contains(p.Bypass, string(f.Bypass[j])) {
			l.Wrong(&f.Bypass[j], "name it once", "bypass names the hop %q twice", f.Bypass[j])
			continue
		}
		p.Bypass = append(p.Bypass, string(f.Bypass[j]))
		l.switchable(&f.Bypass[j], paths[i])
	}
}

// switchable checks that a hop of a path can be passed by.
func (l *loader) switchable(name *strict.NameText, p Path) {
	var known []string
	for _, h := range p.Hops {
		switch {
		case h.Name == string(*name) && h.Bypass() != NoBypass:
			return
		case h.Name == string(*name):
			l.Wrong(name, "name a "+bypassable(), "hop %q is a %s, which cannot be bypassed in place", *name, h.Type)
			return
		case h.Name != "":
			known = append(known, h.Name)
		}
	}
	switch {
	case *name == "":
	case len(known) > 0:
		l.Wrong(name, strict.Instead(string(*name), known), "bypass: path %q has no hop %q", p.Name, *name)
	case !slices.ContainsFunc(p.Hops, Hop.Forwards):
		l.Wrong(name, "give that path a "+bypassable(), "bypass: path %q has only links, no hop %q", p.Name, *name)
	}
}

func (l *loader) tunnel(f *FileTunnel) *Tunnel {
	if f == nil {
		return nil
	}
	t := &Tunnel{Type: TunnelType(f.Type), ID: f.ID, Port: f.Port, MTU: l.size(&f.MTU, minTunnelMTU, maxLinkMTU)}
	switch t.Type {
	case VXLAN:
		t.ID, t.Port = cmp.Or(t.ID, 1), cmp.Or(t.Port, 4789)
	case WireGuard:
		t.Port = cmp.Or(t.Port, 51820)
		if l.Written(&f.ID) {
			l.Misplaced(&f.ID, "leave it out", "a wireguard tunnel has no id")
		}
	}
	return t
}

// overhead is what a tunnel adds to each packet, in bytes.
func (t *Tunnel) overhead() int {
	if t.Type == WireGuard {
		return wireGuardOverhead
	}
	return vxlanOverhead
}

// leastMTU is the smallest MTU of the path's links, in bytes: an MTU is that of the link which
// leaves its hop, and links up to the next hop that forwards are one.
func (p Path) leastMTU() int {
	least, link := maxLinkMTU, 0
	for _, h := range p.Hops {
		if h.Forwards() {
			least, link = min(least, cmp.Or(link, defaultLinkMTU)), 0
		}
		if h.MTU > 0 {
			link = min(cmp.Or(link, h.MTU), h.MTU)
		}
	}
	return min(least, cmp.Or(link, defaultLinkMTU))
}

// fits gives a tunnel the MTU that the path leaves, and checks one that is given.
func (l *loader) fits(f *FilePath, p *Path) {
	if p.Tunnel == nil || p.Tunnel.Type == "" {
		return
	}
	least := p.leastMTU()
	room := least - p.Tunnel.overhead()
	switch {
	case room < minTunnelMTU:
		l.Wrong(f.Tunnel, fmt.Sprintf("give every hop an mtu of at least %dB", minTunnelMTU+p.Tunnel.overhead()),
			"path %q has an MTU of %d, which leaves %d bytes inside a %s tunnel", f.Name, least, room, p.Tunnel.Type)
	case p.Tunnel.MTU > room:
		l.Wrong(&f.Tunnel.MTU, fmt.Sprintf("write at most %dB, or leave it out", room),
			"a tunnel MTU of %d does not fit: the path has %d and %s adds %d bytes", p.Tunnel.MTU, least, p.Tunnel.Type, p.Tunnel.overhead())
	case p.Tunnel.MTU == 0:
		p.Tunnel.MTU = room
	}
}

func (l *loader) path(f *FilePath) Path {
	p := Path{Name: string(f.Name), Title: string(f.Title), Tunnel: l.tunnel(f.Tunnel)}
	if l.Written(&f.VSwitch) {
		p.SoftwareSwitch = new(f.VSwitch)
	}
	if !l.Written(&f.Hops) && !l.Written(&f.VariantOf) {
		f.Hops = []FileHop{{Type: Link}} // nothing is between the ends
	}
	first := make(map[strict.NameText]int)
	for i := range f.Hops {
		hop := &f.Hops[i]
		p.Hops = append(p.Hops, l.hop(hop, fmt.Sprintf("hop %d of path %q", i+1, f.Name)))
		if hop.Name == "" {
			continue
		}
		if n := first[hop.Name]; n > 0 {
			l.Wrong(&hop.Name, "give every hop of a path its own name",
				"hop %d of path %q has the name of hop %d, %q", i+1, f.Name, n, hop.Name)
		} else {
			first[hop.Name] = i + 1
		}
	}
	l.together(f, p)
	l.fits(f, &p)
	return p
}

// together checks what the hops of a path do all in all.
func (l *loader) together(f *FilePath, p Path) {
	var delay time.Duration
	passed := map[string]float64{"lose": 1, "duplicate": 1, "reorder": 1}
	for _, hop := range p.Hops {
		if hop.Delay > maxDelay || max(hop.LossFraction, hop.DuplicateFraction, hop.ReorderFraction) > maxImpairment {
			return // reported at the hop
		}
		delay += hop.Delay
		passed["lose"] *= 1 - hop.LossFraction
		passed["duplicate"] *= 1 - hop.DuplicateFraction
		passed["reorder"] *= 1 - hop.ReorderFraction
	}
	if delay > maxDelay {
		l.Wrong(&f.Hops, "have at most "+quantity.FormatDuration(maxDelay)+" on a path",
			"the hops of path %q delay by %s together", f.Name, quantity.FormatDuration(delay))
	}
	for _, what := range []string{"lose", "duplicate", "reorder"} {
		if passed[what] < 1-maxImpairment {
			l.Wrong(&f.Hops, "have at most "+quantity.FormatFraction(maxImpairment)+" on a path",
				"the hops of path %q %s %.3g%% of all frames together", f.Name, what, 100*(1-passed[what]))
		}
	}
}

func (l *loader) hop(f *FileHop, what string) Hop {
	h := Hop{
		Type: f.Type, Name: string(f.Name),
		Impairment: Impairment{
			Delay:                    strict.Parsed(quantity.ParseDuration, f.Delay),
			Jitter:                   strict.Parsed(quantity.ParseDuration, f.Jitter),
			LossFraction:             l.share(&f.Loss),
			DuplicateFraction:        l.share(&f.Duplicate),
			ReorderFraction:          l.share(&f.Reorder),
			ReorderBy:                strict.Parsed(quantity.ParseDuration, f.ReorderBy),
			RateBitsPerSecond:        l.rate(&f.Rate),
			PerFlowRateBitsPerSecond: l.rate(&f.PerFlowRate),
			QueueBytes:               l.size(&f.Queue, 1, maxQueueBytes),
		},
		MTU:    l.size(&f.MTU, minLinkMTU, maxLinkMTU),
		Silent: f.Silent, OneWay: f.OneWay, MeasureKernelCPU: f.MeasureKernelCPU,
		Parameters: l.parameters(f),
	}
	if l.Written(&f.Queue) && !l.Written(&f.Rate) {
		l.Wrong(&f.Queue, "add the rate that the queue waits for, as in rate: 100Mbit, or leave queue out", "%s has a queue and no rate", what)
	}
	if l.Written(&f.ReorderBy) && !l.Written(&f.Reorder) {
		l.Wrong(&f.ReorderBy, "add the share of frames, as in reorder: 1%, or leave reorder_by out", "%s has frames that are late and no share of them", what)
	}
	if h.ReorderBy > time.Second {
		l.Wrong(&f.ReorderBy, "write at most 1s", "reorder_by %q is too long", f.ReorderBy)
	}
	row := hopRowOf(f.Type)
	if row.load != nil {
		row.load(l, f, &h)
	}
	if h.Type != "" && !row.link && !l.Written(&f.Name) {
		l.Wrong(f, `add a name, as in name: appliance`, "%s is a %s and lacks \"name\"", what, h.Type)
	}
	l.hopKeys(f)
	if h.Delay > maxDelay {
		l.Wrong(&f.Delay, "write at most "+quantity.FormatDuration(maxDelay), "delay %q is too long", f.Delay)
	}
	if h.Jitter > h.Delay && (l.Written(&f.Delay) == (f.Delay != "")) {
		l.Wrong(&f.Jitter, "write a jitter of at most the delay, since no frame arrives before it was sent",
			"jitter %q is larger than the delay, %s", f.Jitter, quantity.FormatDuration(h.Delay))
	}
	return h
}

// hopKeys refuses keys that mean nothing to the hop's type.
func (l *loader) hopKeys(f *FileHop) {
	if f.Type == "" {
		return
	}
	v := reflect.ValueOf(f).Elem()
	for i, key := range strict.KeysOf(v.Type()) {
		field, types := v.Field(i).Addr().Interface(), HopTypesOf(key)
		if !l.Written(field) || slices.Contains(types, f.Type) {
			continue
		}
		l.Misplaced(field, "leave it out; it is for "+strings.Join(kind.Texts(types), ", "), "a %s has no %q", f.Type, key)
	}
}

func (l *loader) scaleOut(f *FileHop) *ScaleOut {
	s := f.ScaleOut
	if s == nil {
		return nil
	}
	if have := max(f.Instances, 1); s.Instances > 0 && s.Instances <= have {
		l.Wrong(&s.Instances, fmt.Sprintf("write more than %d", have), "scale_out to %d instances adds none to %d", s.Instances, have)
	}
	return &ScaleOut{At: l.Between(&s.At, 0, time.Millisecond, kind.MaxDuration), Instances: s.Instances}
}

// parameters are the fields of a hop as written, but type and name.
func (l *loader) parameters(f *FileHop) map[string]string {
	out := make(map[string]string)
	v := reflect.ValueOf(f).Elem()
	for i, key := range strict.KeysOf(v.Type()) {
		field := v.Field(i).Addr().Interface()
		switch {
		case !l.Written(field) || key == "type" || key == "name":
		case key == "scale_out":
			if f.ScaleOut != nil {
				out[key] = fmt.Sprintf("%d instances at %s", f.ScaleOut.Instances, f.ScaleOut.At)
			}
		default:
			out[key] = l.Scalar(field)
		}
	}
	return out
}

func (l *loader) share(field *strict.FractionText) float64 {
	fraction := strict.Parsed(quantity.ParseFraction, *field)
	if fraction > maxImpairment {
		l.Wrong(field, "write at most "+quantity.FormatFraction(maxImpairment), "fraction %q leaves too little to measure", *field)
	}
	return fraction
}
