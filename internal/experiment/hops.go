package experiment

import (
	"cmp"
	"slices"
	"time"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/strict"
)

// This file is what a hop is: its keys in an experiment file (FileHop), its value
// (Hop), and the table of its types. The loader, the schema, the lab and the limits
// of a path ask the table, or the value, and know no type by name.

// HopType names a type of hop.
type HopType string

// The types of hops.
const (
	Link         HopType = "link"         // a wire with delay, jitter, loss, rate
	Router       HopType = "router"       // an IP forwarding node
	Firewall     HopType = "firewall"     // a stateful packet filter, of one or several instances
	IDPS         HopType = "idps"         // inspects payloads against rules
	NAT          HopType = "nat"          // translates addresses
	LoadBalancer HopType = "loadbalancer" // spreads flows over back ends
	VNetGateway  HopType = "vnet-gateway" // a router that never answers, with a limit of flows
)

// Bypass is how traffic passes a hop by.
type Bypass int

// The ways.
const (
	NoBypass      Bypass = iota // it cannot be passed by in place
	BypassByRoute               // routes lead around it
	BypassByMode                // it stays where it is and lets everything through
)

// hopRow is what a type of hop is.
type hopRow struct {
	name HopType
	// keys of FileHop that not all types take.
	keys []string
	// link says that it is a link; all others forward packets and have a name.
	link   bool
	bypass Bypass
	// load reads the keys of the type's own, with their defaults; may be nil.
	load func(l *loader, f *FileHop, h *Hop)
}

// hopTable has a row for every type, in the order of documents.
func hopTable() []hopRow {
	return []hopRow{
		{name: Link, link: true},
		{name: Router, keys: []string{"measure_kernel_cpu", "silent", "one_way"}, bypass: BypassByRoute},
		{
			name: Firewall, bypass: BypassByRoute,
			keys: []string{"measure_kernel_cpu", "silent", "one_way", "rules", "instances", "scale_out"},
			load: func(l *loader, f *FileHop, h *Hop) {
				h.Rules, h.Instances, h.ScaleOut = 100, cmp.Or(f.Instances, 1), l.scaleOut(f)
				if l.Written(&f.Rules) {
					h.Rules = f.Rules
				}
			},
		},
		{
			name: IDPS, bypass: BypassByMode,
			keys: []string{"measure_kernel_cpu", "silent", "one_way", "mode", "inspect_rate", "rule_file"},
			load: func(l *loader, f *FileHop, h *Hop) {
				h.Mode, h.InspectRateBitsPerSecond = cmp.Or(IDPSMode(f.Mode), IDPSAlert), l.rate(&f.InspectRate)
				h.RuleFile, h.RuleFileLine = string(f.RuleFile), l.Line(&f.RuleFile)
			},
		},
		{
			name: NAT, keys: []string{"measure_kernel_cpu", "silent", "translate", "silent_hops"},
			load: func(_ *loader, f *FileHop, h *Hop) {
				h.Translate, h.SilentHops = cmp.Or(Translation(f.Translate), TranslateSource), f.SilentHops
			},
		},
		{
			name: LoadBalancer, keys: []string{"measure_kernel_cpu", "silent", "backends"},
			load: func(_ *loader, f *FileHop, h *Hop) { h.Backends = cmp.Or(f.Backends, 2) },
		},
		{
			name: VNetGateway, bypass: BypassByRoute,
			keys: []string{"measure_kernel_cpu", "one_way", "flow_limit"},
			load: func(_ *loader, f *FileHop, h *Hop) { h.Silent, h.FlowLimit = true, f.FlowLimit },
		},
	}
}

// hopRowOf is the row of a type, an empty one for a type that there is not.
func hopRowOf(t HopType) hopRow {
	rows := hopTable()
	if i := slices.IndexFunc(rows, func(r hopRow) bool { return r.name == t }); i >= 0 {
		return rows[i]
	}
	return hopRow{}
}

// HopTypes lists every type of hop.
func HopTypes() []HopType {
	var types []HopType
	for _, r := range hopTable() {
		types = append(types, r.name)
	}
	return types
}

// bypassable says which types of hop can be passed by, for a message.
func bypassable() string {
	var others []string
	for _, r := range hopTable() {
		if r.bypass == NoBypass {
			others = append(others, string(r.name))
		}
	}
	return "hop other than a " + kind.Either(others)
}

// HopTypesOf says which types of hop a key of FileHop applies to.
func HopTypesOf(key string) []HopType {
	var types []HopType
	for _, r := range hopTable() {
		if slices.Contains(r.keys, key) {
			types = append(types, r.name)
		}
	}
	if len(types) == 0 {
		return HopTypes() // it is no type's own
	}
	return types
}

// Hop is one element of a path. Impairments act in each direction. Those of a
// link act on itself, those of any other hop on the link that
// leaves it towards the destination (and in reverse on the same link).
type Hop struct {
	Type HopType
	Name string
	Impairment
	// MTU of the link in bytes, 0 for Ethernet's.
	MTU int
	// Silent hops never answer with ICMP.
	Silent bool
	// OneWay hops are passed by in the reverse direction.
	OneWay bool
	// MeasureKernelCPU times the kernel's work on packets in the hop.
	MeasureKernelCPU bool

	Rules     int       // of a firewall
	Instances int       // of a firewall; Impairment acts on each
	ScaleOut  *ScaleOut // of a firewall, nil for none

	Mode IDPSMode
	// InspectRateBitsPerSecond is the rate of an idps while it inspects, 0
	// unlimited.
	InspectRateBitsPerSecond float64
	RuleFile                 string // of an idps, empty for the built-in rules
	// RuleFileLine is where the experiment file names RuleFile, counted from 1.
	RuleFileLine int

	Translate  Translation // of a nat
	SilentHops int         // of a nat, itself the last of them
	Backends   int         // of a loadbalancer
	FlowLimit  int         // of a vnet-gateway, 0 for none

	// Parameters are the fields as written, for reports: {"delay": "1.13ms"}.
	Parameters map[string]string
}

// ScaleOut is how a firewall grows in the middle of a trial.
type ScaleOut struct {
	At        time.Duration // from the start of the trial's traffic
	Instances int           // from then on
}

// IDPSMode is what an idps does with a flow that matches a rule.
type IDPSMode string

// The modes of an idps.
const (
	IDPSOff   IDPSMode = "off"
	IDPSAlert IDPSMode = "alert"
	IDPSDeny  IDPSMode = "deny"
)

// Translation is which addresses a nat replaces.
type Translation string

// The translations.
const (
	TranslateSource      Translation = "source"
	TranslateDestination Translation = "destination"
	TranslateBoth        Translation = "both"
)

// Forwards says whether the hop forwards packets; it is a link otherwise.
func (h Hop) Forwards() bool { return !hopRowOf(h.Type).link }

// Bypass is how the hop can be passed by.
func (h Hop) Bypass() Bypass { return hopRowOf(h.Type).bypass }

// Inspects says whether the hop can look into payloads.
func (h Hop) Inspects() bool { return h.Mode != "" }

// ReplacesDestination says whether packets have another destination behind the hop.
func (h Hop) ReplacesDestination() bool {
	return h.Backends > 0 || h.Translate == TranslateDestination || h.Translate == TranslateBoth
}

// Label is what the hop is called: its name, or its type where it has none.
func (h Hop) Label() string { return cmp.Or(h.Name, string(h.Type)) }

// Parallel is the largest number of parallel devices of the hop, each with its
// Impairment: the instances of a firewall after it was scaled out, or the back
// ends of a load balancer, each with a link of its own. It is 1 for any other hop.
func (h Hop) Parallel() int {
	if h.ScaleOut != nil {
		return max(h.Instances, h.ScaleOut.Instances, 1)
	}
	return max(h.Instances, h.Backends, 1)
}

// IsOff says whether the path names a hop among those that it bypasses.
func (p Path) IsOff(h Hop) bool { return h.Name != "" && slices.Contains(p.Bypass, h.Name) }

// Bypasses says whether routes of the path lead around a hop.
func (p Path) Bypasses(h Hop) bool { return p.IsOff(h) && h.Bypass() == BypassByRoute }

// Impairment is what a hop does to frames, per direction.
type Impairment struct {
	Delay             time.Duration // one way
	Jitter            time.Duration // standard deviation of a normal variation, order kept
	LossFraction      float64
	DuplicateFraction float64
	ReorderFraction   float64
	ReorderBy         time.Duration // 0 for the time until the next frame
	RateBitsPerSecond float64       // 0 unlimited
	// PerFlowRateBitsPerSecond is that of each flow (addresses, protocol and
	// ports), 0 unlimited.
	PerFlowRateBitsPerSecond float64
	// QueueBytes bounds what waits for RateBitsPerSecond, 0 for 50 ms of it.
	QueueBytes int
}

// RoundTrip is how long the delays of both directions take, with nearly all of their jitter.
func (i Impairment) RoundTrip() time.Duration { return 2 * (i.Delay + 4*i.Jitter) }

// FileHop is one element of a path. What it does to frames, it does in each
// direction.
type FileHop struct {
	// A link is a wire; every other hop forwards IP packets and acts on the
	// link that leaves it towards the destination.
	Type HopType `json:"type"`
	// Name of the hop; every hop but a link must have one.
	Name strict.NameText `json:"name,omitempty" jsonschema:"example=appliance"`
	// One-way delay, up to 10s.
	Delay strict.TimeText `json:"delay,omitempty"`
	// Standard deviation of a normal variation of the delay, at most the
	// delay; frames keep their order.
	Jitter strict.TimeText `json:"jitter,omitempty"`
	// Share of frames lost, up to 50%.
	Loss strict.FractionText `json:"loss,omitempty"`
	// Share of frames sent twice, up to 50%.
	Duplicate strict.FractionText `json:"duplicate,omitempty"`
	// Share of frames that overtake, up to 50%.
	Reorder strict.FractionText `json:"reorder,omitempty"`
	// By how much these are later, up to 1s; until the next frame when left out.
	ReorderBy strict.TimeText `json:"reorder_by,omitempty"`
	// Rate in each direction, of a firewall that of each instance; unlimited
	// when left out.
	Rate strict.RateText `json:"rate,omitempty"`
	// Rate of each flow (addresses, protocol and ports) in each direction;
	// unlimited when left out.
	PerFlowRate strict.RateText `json:"per_flow_rate,omitempty"`
	// Queue of the rate; what does not fit is dropped, as a policer does with
	// next to none. 50 ms at the rate, or 128KiB if that is more but at most 1.5 s, when left out.
	Queue strict.SizeText `json:"queue,omitempty"`
	// MTU of the link; 1500B when left out.
	MTU strict.SizeText `json:"mtu,omitempty"`

	// The keys below are those of some types only. Schema adds them when it is asked for, so
	// that their descriptions are tags and not comments.
	MeasureKernelCPU bool            `json:"measure_kernel_cpu,omitempty" jsonschema_description:"Whether the kernel's work in the hop is timed, which slows each packet by about 0.15 µs; false when left out."`
	Silent           bool            `json:"silent,omitempty" jsonschema_description:"Whether the hop never answers with ICMP, so that a trace shows a star; vnet-gateways never do. False when left out."`
	OneWay           bool            `json:"one_way,omitempty" jsonschema_description:"Whether the reverse direction passes the hop by; false when left out."`
	Rules            int             `json:"rules,omitempty" jsonschema:"minimum=0,maximum=100000" jsonschema_description:"Rules of a firewall that every new flow is compared with before the one that accepts it; 100 when left out."`
	Instances        int             `json:"instances,omitempty" jsonschema:"minimum=1,maximum=64" jsonschema_description:"Instances of a firewall among which flows are spread; 1 when left out."`
	ScaleOut         *FileScaleOut   `json:"scale_out,omitempty" jsonschema_description:"Instances that a firewall gets in the middle of a trial."`
	Mode             string          `json:"mode,omitempty" jsonschema:"enum=off,enum=alert,enum=deny" jsonschema_description:"What an idps does with a flow that matches a rule: nothing (off), log it (alert), or drop and reset it (deny); alert when left out."`
	InspectRate      strict.RateText `json:"inspect_rate,omitempty" jsonschema_description:"Rate in each direction of an idps while it inspects, on top of what inspecting takes here; unlimited when left out."`
	RuleFile         strict.LineText `json:"rule_file,omitempty" jsonschema_description:"File of an idps's rules in Suricata's format, relative to the experiment file; the built-in rules when left out."`
	Translate        string          `json:"translate,omitempty" jsonschema:"enum=source,enum=destination,enum=both" jsonschema_description:"Which addresses a nat translates: source, destination, or both; source when left out."`
	SilentHops       int             `json:"silent_hops,omitempty" jsonschema:"minimum=1,maximum=30" jsonschema_description:"Silent hops of the provider, of which the nat is the last; none when left out."`
	Backends         int             `json:"backends,omitempty" jsonschema:"minimum=1,maximum=16" jsonschema_description:"Back ends of a loadbalancer, each of which is a destination; 2 when left out."`
	FlowLimit        int             `json:"flow_limit,omitempty" jsonschema:"minimum=1,maximum=10000000" jsonschema_description:"Flows that a vnet-gateway carries at a time; unlimited when left out."`
}

// FileScaleOut is how a firewall grows in the middle of a trial. Flows that
// exist stay where they are, new ones are spread among all instances.
type FileScaleOut struct {
	// When, from the start of each trial's traffic.
	At strict.TimeText `json:"at"`
	// Instances from then on.
	Instances int `json:"instances" jsonschema:"minimum=2,maximum=64"`
}
