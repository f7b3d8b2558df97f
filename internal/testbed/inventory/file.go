package inventory

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/strict"
)

// This file is the testbed file as Go types: its keys (json tags), what may be left
// out (omitempty), its closed lists and its bounds (jsonschema tags). The decoder
// obeys these tags, and the JSON Schema for editors is generated from them, with the
// comments as its descriptions.

//go:generate go run ../../schemagen -o testbed.schema.json testbed

// File is a testbed: where the paths of an experiment are on real hosts, how their
// ends are reached, and how paths are switched.
type File struct {
	// Version of this file format.
	Format string `json:"format" jsonschema:"enum=hopbench.testbed/1"`
	// Name of the testbed, for reports.
	Name strict.NameText `json:"name" jsonschema:"example=office"`
	// One line for people.
	Title strict.LineText `json:"title,omitempty"`
	// What the testbed consists of.
	Kind KindText `json:"kind"`
	// Name of the file that holds the token of all ends that are reached by tls:// or
	// serve://.
	TokenFile FileText `json:"token_file,omitempty" jsonschema:"example=~/.hopbench-token"`
	// Hosts by the names that the experiment gives them, and appliances that have an
	// agent.
	Endpoints FileEndpoints `json:"endpoints"`
	// Where each path of the experiment is.
	Paths FilePaths `json:"paths"`
	// What commands set to one of several values, by name.
	Switches FileSwitches `json:"switches,omitempty"`
	// Where the figures of hops come from, by name.
	Hops FileHops `json:"hops,omitempty"`
	// Where the machines of a fleet join.
	Broker *FileBroker `json:"broker,omitempty"`
	// The queue that feeds the clients of a fleet with servers; in the fleet's own broker
	// when left out.
	Queue *FileQueue `json:"queue,omitempty"`
}

// FileEndpoints are endpoints by name.
type FileEndpoints []strict.Entry[strict.NameText, FileEndpoint]

// Entries says what the mapping has.
func (FileEndpoints) Entries() strict.Entries {
	return strict.Entries{What: "endpoints and how each is reached", Key: "endpoint", Example: "{vm1: {reach: local}}", Least: 2, Most: 100}
}

// FileEndpoint is a host at an end of paths, or an appliance on them that has an agent.
type FileEndpoint struct {
	// How it is reached.
	Reach ReachText `json:"reach"`
	// Metered rate of all that it sends, for the gates; not known when left out.
	EgressRate strict.RateText `json:"egress_rate,omitempty"`
	// Name of the hopbench for this machine, which ssh copies; the one beside this
	// program when left out.
	Binary FileText `json:"binary,omitempty"`
}

// FilePaths are paths by name.
type FilePaths []strict.Entry[strict.NameText, FilePath]

// Entries says what the mapping has.
func (FilePaths) Entries() strict.Entries {
	return strict.Entries{What: "paths with their addresses", Key: "path", Example: "{direct: {to: 10.0.0.7}}", Least: 1, Most: 100}
}

// FilePath is where a path of the experiment is.
type FilePath struct {
	// Address that the source sends to, with a port if it is not that of the
	// destination's listener; of a fleet, the network in which each destination has it.
	To TargetText `json:"to"`
	// Address that the destination listens on, which differs behind NAT; the one that
	// the source sends to when left out.
	Listen AddressText `json:"listen,omitempty"`
	// Local address of the source; the kernel's choice when left out.
	From IPText `json:"from,omitempty"`
	// Interface of the source; the route's when left out.
	Device strict.LineText `json:"device,omitempty"`
	// Differentiated services code point of all packets; the test's own when left out.
	DSCP int `json:"dscp,omitempty" jsonschema:"minimum=0,maximum=63"`
	// What a trial on the path must show; learned at the first trial when left out.
	Expect *FileExpectation `json:"expect,omitempty"`
	// What proves of each trial that it took the path: a trace by the source, a trace back
	// by the destination, or only the time to live on arrival; the first of these that shows
	// something when left out.
	Proof string `json:"proof,omitempty" jsonschema:"enum=trace,enum=trace_back,enum=received_ttl"`
	// Values of switches that bring the path into force.
	Set FileSet `json:"set,omitempty"`
	// Names of the hops whose figures belong to the path.
	Hops []strict.NameText `json:"hops,omitempty" jsonschema:"minItems=1,maxItems=32"`
}

// FileExpectation is what a trial on a path must show.
type FileExpectation struct {
	// Routers and the destination, as a trace counts.
	Hops int `json:"hops,omitempty" jsonschema:"minimum=1,maximum=64"`
	// Time to live with which packets arrive.
	ReceivedTTL int `json:"received_ttl,omitempty" jsonschema:"minimum=1,maximum=255"`
	// Largest packet that gets through.
	PathMTU strict.SizeText `json:"path_mtu,omitempty" jsonschema:"example=1500B"`
}

// FileSet are values by switch.
type FileSet []strict.Entry[strict.NameText, ValueText]

// Entries says what the mapping has.
func (FileSet) Entries() strict.Entries {
	return strict.Entries{What: "switches with a value each", Key: "switch", Example: "{idps: deny}", Least: 1, Most: 16}
}

// FileSwitches are switches by name.
type FileSwitches []strict.Entry[strict.NameText, FileSwitch]

// Entries says what the mapping has.
func (FileSwitches) Entries() strict.Entries {
	return strict.Entries{What: "switches with their commands", Key: "switch", Example: "{idps: {values: {off: [./fw.sh, off], deny: [./fw.sh, deny]}, read: [./fw.sh, show]}}", Least: 1, Most: 16}
}

// FileSwitch is a thing that commands set to one of several values.
type FileSwitch struct {
	// The command of each value: the program and its arguments, without a shell.
	Values FileValues `json:"values"`
	// The command that prints the value in force.
	Read []ArgText `json:"read" jsonschema:"minItems=1,maxItems=100"`
	// How it is proven that the value is in force; trace when left out.
	Proof string `json:"proof,omitempty" jsonschema:"enum=trace,enum=canary,enum=command,enum=none"`
	// With proof command: the command that ends with status 0 where the value, its last
	// argument, is in force.
	Verify []ArgText `json:"verify,omitempty" jsonschema:"minItems=1,maxItems=100"`
	// With proof canary: what becomes of the canary request at each value.
	Canary FileCanary `json:"canary,omitempty"`
	// How long after the proof nothing is measured; 1s when left out.
	Settle strict.TimeText `json:"settle,omitempty" jsonschema:"example=30s"`
	// How long the command, reading and the proof may take together; 2m when left
	// out.
	Timeout strict.TimeText `json:"timeout,omitempty" jsonschema:"example=10m"`
	// The value to leave behind; the one that was found when left out.
	Restore ValueText `json:"restore,omitempty"`
}

// FileValues are the commands of values.
type FileValues []FileValue

// Entries says what the mapping has.
func (FileValues) Entries() strict.Entries {
	return strict.Entries{What: "values with their commands", Key: "value", Example: "{off: [./fw.sh, off], deny: [./fw.sh, deny]}", Least: 2, Most: 16}
}

// FileValue is the command of a value.
type FileValue struct {
	Value   ValueText
	Command []ArgText `jsonschema:"minItems=1,maxItems=100"`
}

// FileCanary are answers by value.
type FileCanary []FileCanaryAnswer

// Entries says what the mapping has.
func (FileCanary) Entries() strict.Entries {
	return strict.Entries{What: "values with their answers", Key: "value", Example: "{off: passed, deny: reset}", Least: 1, Most: 16}
}

// FileCanaryAnswer is what becomes of the canary request at a value.
type FileCanaryAnswer struct {
	Value  ValueText
	Answer string `jsonschema:"enum=passed,enum=reset,enum=silent"`
}

// FileHops are hops by name.
type FileHops []strict.Entry[strict.NameText, FileHop]

// Entries says what the mapping has.
func (FileHops) Entries() strict.Entries {
	return strict.Entries{What: "hops and where their figures come from", Key: "hop", Example: "{nva: {agent: {endpoint: nva-vm, interface: eth1}}}", Least: 1, Most: 100}
}

// FileHop is where the figures of a hop come from; it has one source.
type FileHop struct {
	// The agent on an appliance.
	Agent *FileAgentMeter `json:"agent,omitempty"`
	// A Prometheus server.
	Prometheus *FilePrometheusMeter `json:"prometheus,omitempty"`
	// IF-MIB of an appliance, by SNMPv3 or SNMPv2c.
	SNMP *FileSNMPMeter `json:"snmp,omitempty"`
	// A file that something else appends to.
	CSV *FileCSVMeter `json:"csv,omitempty"`
}

// FileAgentMeter is an appliance that has an agent.
type FileAgentMeter struct {
	// Name of the endpoint.
	Endpoint strict.NameText `json:"endpoint" jsonschema:"example=nva-vm"`
	// Its interface towards the source.
	Interface strict.LineText `json:"interface" jsonschema:"example=eth1"`
}

// FilePrometheusMeter is a Prometheus server; each query is an instant query of one
// total.
type FilePrometheusMeter struct {
	// Address of the server.
	URL URLText `json:"url"`
	// Bytes that the hop carried towards the destination.
	ForwardBytes strict.ProseText `json:"forward_bytes,omitempty"`
	// Bytes that the hop carried towards the source.
	BackwardBytes strict.ProseText `json:"backward_bytes,omitempty"`
	// Packets that the hop carried towards the destination.
	ForwardPackets strict.ProseText `json:"forward_packets,omitempty"`
	// Packets that the hop carried towards the source.
	BackwardPackets strict.ProseText `json:"backward_packets,omitempty"`
	// Packets that the hop dropped.
	DroppedPackets strict.ProseText `json:"dropped_packets,omitempty"`
	// CPU time of the hop, in seconds.
	CPUSeconds strict.ProseText `json:"cpu_seconds,omitempty"`
}

// FileSNMPMeter is an appliance that answers SNMPv3, to a user, or SNMPv2c, to a community.
type FileSNMPMeter struct {
	// Its address with the port; 161 when left out.
	Address HostText `json:"address"`
	// Name (ifName) or number (ifIndex) of its interface towards the source.
	Interface strict.LineText `json:"interface" jsonschema:"example=eth1"`
	// With SNMPv2c: name of the file that holds the community.
	CommunityFile FileText `json:"community_file,omitempty" jsonschema:"example=~/.snmp-community"`
	// With SNMPv3: name of the user, whose authentication is by SHA-256.
	User strict.LineText `json:"user,omitempty" jsonschema:"example=hopbench"`
	// With SNMPv3: name of the file that holds the password of authentication.
	AuthFile FileText `json:"auth_file,omitempty" jsonschema:"example=~/.snmp-auth"`
	// With SNMPv3: name of the file that holds the password of privacy, by AES-128; nothing
	// is encrypted when left out.
	PrivacyFile FileText `json:"privacy_file,omitempty" jsonschema:"example=~/.snmp-privacy"`
}

// FileCSVMeter is a file that something else appends to.
type FileCSVMeter struct {
	// Its name.
	File FileText `json:"file" jsonschema:"example=fw.csv"`
}

// The kinds of text that only a testbed file has.
type (
	// KindText is a kind of testbed.
	KindText string
	// ReachText says how an end is reached.
	ReachText string
	// AddressText is an IP address, with or without a port.
	AddressText string
	// TargetText is an AddressText, or a network.
	TargetText string
	// IPText is an IP address.
	IPText string
	// HostText is a name or address, with or without a port.
	HostText string
	// URLText is the address of an HTTP server.
	URLText string
	// BrokerURLText is the address of an AMQP broker.
	BrokerURLText string
	// ClusterText are addresses of servers of NATS, separated by commas.
	ClusterText string
	// FileText is the name of a file.
	FileText string
	// ValueText is a value of a switch.
	ValueText string
	// ArgText is one argument of a command.
	ArgText string
)

const (
	valuePattern = `^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$`
	labelPattern = `^[A-Za-z0-9._-]{1,60}=[A-Za-z0-9._-]{1,60}$`
	hostPattern  = `^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$`
	userPattern  = `^[A-Za-z0-9_][A-Za-z0-9._@\\-]{0,63}$`
	maxFile      = 1000
	maxArg       = 4000
)

// TextRules gives the rule of every kind of text.
func TextRules() map[reflect.Type]strict.Rule {
	rules := strict.TextRules()
	rules[reflect.TypeFor[KindText]()] = strict.Rule{Enum: Kinds()}
	rules[reflect.TypeFor[ReachText]()] = strict.Rule{MaxLength: 400, Example: "ssh://ops@10.0.0.7", Check: strict.Parses(parseReach)}
	rules[reflect.TypeFor[AddressText]()] = strict.Rule{Pattern: `^\[?[0-9A-Fa-f.:]+(%[A-Za-z0-9._-]+)?\]?(:[0-9]+)?$`, MaxLength: 80, Example: "10.0.0.7", Check: strict.Parses(parseAddress)}
	rules[reflect.TypeFor[TargetText]()] = strict.Rule{Pattern: `^\[?[0-9A-Fa-f.:]+(%[A-Za-z0-9._-]+)?\]?((:|/)[0-9]+)?$`, MaxLength: 80, Example: "10.0.0.7", Check: strict.Parses(parseTarget)}
	rules[reflect.TypeFor[IPText]()] = strict.Rule{Pattern: `^[0-9A-Fa-f.:]+(%[A-Za-z0-9._-]+)?$`, MaxLength: 80, Example: "10.0.5.2", Check: strict.Parses(parseIP)}
	rules[reflect.TypeFor[HostText]()] = strict.Rule{Pattern: `^[^ /@]+$`, MaxLength: 300, Example: "10.0.0.1:161", Check: strict.Parses(parseHostPort)}
	rules[reflect.TypeFor[URLText]()] = strict.Rule{Pattern: `^https?://.+$`, MaxLength: 1000, Example: `"http://mon:9090"`, Check: strict.Parses(parseURL)}
	rules[reflect.TypeFor[BrokerURLText]()] = strict.Rule{Pattern: `^amqps?://[^/@]+/?$`, MaxLength: 300, Example: `"amqps://mq:5671"`, Check: strict.Parses(parseBrokerURL)}
	rules[reflect.TypeFor[ClusterText]()] = strict.Rule{Pattern: `^tls://[^ /@,]+(,tls://[^ /@,]+)*$`, MaxLength: 1000, Example: `"tls://nats-1:4222"`, Check: strict.Parses(ParseCluster)}
	rules[reflect.TypeFor[FileText]()] = strict.Rule{MaxLength: maxFile, Check: checkFileName, Unquoted: true}
	rules[reflect.TypeFor[ValueText]()] = strict.Rule{Pattern: valuePattern, MaxLength: 40, Example: "deny", Check: checkValue}
	rules[reflect.TypeFor[ArgText]()] = strict.Rule{MaxLength: maxArg, Check: checkArg, Unquoted: true}
	return rules
}

func wrong(remedy, format string, args ...any) *quantity.UnitError {
	return &quantity.UnitError{Problem: fmt.Sprintf(format, args...), Remedy: remedy}
}

// splitHost takes a host and a port apart; the port is 0 where there is none.
func splitHost(text string) (host string, port uint16, err error) {
	host = text
	if bare, after, bracketed := strings.Cut(strings.TrimPrefix(text, "["), "]"); strings.HasPrefix(text, "[") && bracketed {
		if ip, err := netip.ParseAddr(bare); err != nil || !ip.Is6() {
			return "", 0, wrong("write an IPv6 address in brackets, as in [2001:db8::7]:5202", "%q is no address", strict.Clip(text))
		}
		if after == "" {
			return bare, 0, nil
		}
		digits, colon := strings.CutPrefix(after, ":")
		if !colon {
			return "", 0, wrong("write a port as in [2001:db8::7]:5202", "%q has %q after the address", strict.Clip(text), strict.Clip(after))
		}
		port, err = parsePort(digits)
		return bare, port, err
	}
	if name, digits, found := strings.Cut(text, ":"); found {
		if strings.Contains(digits, ":") {
			remedy := "write an IPv6 address in brackets, as in [2001:db8::7]"
			if ip, err := netip.ParseAddr(text); err == nil {
				remedy = fmt.Sprintf("write it in brackets: [%v]", ip)
			}
			return "", 0, wrong(remedy, "%q could be an address with a port, or without", strict.Clip(text))
		}
		if port, err = parsePort(digits); err != nil {
			return "", 0, err
		}
		host = name
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is4() {
		return host, port, nil
	}
	if !regexp.MustCompile(hostPattern).MatchString(host) {
		return "", 0, wrong("write its name or its address", "%q is no name of a host", strict.Clip(host))
	}
	return host, port, nil
}

func parsePort(digits string) (uint16, error) {
	port, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || port == 0 || !quantity.IsWhole(digits) {
		return 0, wrong("write a number from 1 to 65535", "%q is no port", strict.Clip(digits))
	}
	return uint16(port), nil
}

// parseAddress reads an address with or without a port, 0 then.
func parseAddress(text string) (netip.AddrPort, error) {
	if ip, err := netip.ParseAddr(text); err == nil {
		return netip.AddrPortFrom(ip, 0), unusable(ip)
	}
	if inside, ok := strings.CutPrefix(text, "["); ok && strings.HasSuffix(text, "]") {
		if ip, err := netip.ParseAddr(strings.TrimSuffix(inside, "]")); err == nil && ip.Is6() {
			return netip.AddrPortFrom(ip, 0), unusable(ip)
		}
	}
	host, port, err := splitHost(text)
	if err != nil {
		return netip.AddrPort{}, err
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return netip.AddrPort{}, noAddress(host)
	}
	return netip.AddrPortFrom(ip, port), unusable(ip)
}

// target is an address, or a network.
type target struct {
	address netip.AddrPort
	network netip.Prefix
}

func parseTarget(text string) (target, error) {
	if !strings.Contains(text, "/") {
		address, err := parseAddress(text)
		return target{address: address}, err
	}
	network, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return target{}, wrong("write an address and the length of its prefix, as in 10.0.0.0/24", "%q is no network", strict.Clip(text))
	case network != network.Masked():
		return target{}, wrong(fmt.Sprintf("write %v", network.Masked()), "%q is more than a network", strict.Clip(text))
	case network.Addr().Is6() && network.Addr().IsLinkLocalUnicast():
		// Each end has its own name of the interface, without which nobody listens or dials there.
		return target{}, wrong("write one in which the machines have an address of more than their link", "%q is a network on every link", strict.Clip(text))
	}
	return target{network: network}, nil
}

func noAddress(name string) error {
	if regexp.MustCompile(`^[0-9.]+$`).MatchString(name) {
		return wrong("write four numbers from 0 to 255, as in 10.0.0.7", "%q is no address", strict.Clip(name))
	}
	return wrong(fmt.Sprintf("a path is one address, and a name may be several: write the one that `getent ahosts %s` shows", strict.Clip(name)), "%q is no address", strict.Clip(name))
}

func parseIP(text string) (netip.Addr, error) {
	ip, err := netip.ParseAddr(text)
	if err == nil {
		return ip, unusable(ip)
	}
	if at, err := parseAddress(text); err == nil {
		return netip.Addr{}, wrong(fmt.Sprintf("write %v", at.Addr()), "%q has more than an address; the system chooses the source's port", strict.Clip(text))
	}
	return netip.Addr{}, noAddress(text)
}

// unusable says why no host can have an address.
func unusable(ip netip.Addr) error {
	switch {
	case ip.Is4In6():
		return wrong(fmt.Sprintf("write %v", ip.Unmap()), "%q is an IPv4 address, written as IPv6", ip)
	case ip.IsUnspecified():
		return wrong("write the address that the host has", "%q is the address of no host", ip)
	case ip.IsMulticast() || ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return wrong("write the address of one host", "%q is the address of many hosts", ip)
	case ip.IsLinkLocalUnicast() && ip.Is6() && ip.Zone() == "":
		return wrong(fmt.Sprintf("add the interface, as in %v%%eth0", ip), "%q is an address on every link", ip)
	}
	return nil
}

// snmpPort is that of SNMP's agents (RFC 3417, section 3.2).
const snmpPort = 161

// parseHostPort reads where an agent of SNMP is, as the library wants it.
func parseHostPort(text string) (string, error) {
	host, port, err := splitHost(text)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(host, strconv.Itoa(cmp.Or(int(port), snmpPort))), nil
}

// clusterPort is that of NATS.
const clusterPort = 4222

// ParseCluster reads the servers of a NATS cluster: tls://HOST:PORT, separated by commas, with
// port 4222 where it is left out. It returns them as the library wants them.
func ParseCluster(text string) (string, error) {
	all := strings.Split(text, ",")
	for i, one := range all {
		host, found := strings.CutPrefix(strings.TrimSpace(one), "tls://")
		if !found {
			return "", wrong(`write them as in "tls://nats-1:4222,tls://nats-2:4222"`, "%q has what is no server of NATS that speaks TLS", strict.Clip(text))
		}
		name, port, err := splitHost(host)
		if err != nil {
			return "", err
		}
		all[i] = "tls://" + net.JoinHostPort(name, strconv.Itoa(cmp.Or(int(port), clusterPort)))
	}
	return strings.Join(all, ","), nil
}

func parseURL(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "", wrong(`write it as in "http://mon:9090"`, "%q is no address of an HTTP server", strict.Clip(text))
	case u.User != nil:
		return "", wrong("have a proxy on this machine add them; secrets are never in this file", "%q has a user or a password", strict.Clip(u.Redacted()))
	case u.RawQuery != "" || u.Fragment != "":
		return "", wrong("write the queries under their own keys", "%q is more than the address of a server", strict.Clip(text))
	}
	return strings.TrimSuffix(text, "/"), nil
}

func parseBrokerURL(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "amqp" && u.Scheme != "amqps" || u.Host == "":
		return "", wrong(`write it as in "amqps://mq:5671"`, "%q is no address of an AMQP broker", strict.Clip(text))
	case u.User != nil:
		return "", wrong("write user: and password_file:; secrets are never in this file", "%q has a user or a password", strict.Clip(u.Redacted()))
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return "", wrong("write the queue under address:", "%q is more than the address of a broker", strict.Clip(text))
	}
	return strings.TrimSuffix(text, "/"), nil
}

func checkValue(text string, isString bool) *quantity.UnitError {
	switch {
	case !regexp.MustCompile(valuePattern).MatchString(text):
		return wrong("use up to 40 letters, digits, dots, hyphens and underscores, as the read command prints it", "%q is no value of a switch", strict.Clip(text))
	case !isString:
		return strict.NotText(text)
	}
	return nil
}

func checkFileName(text string, isString bool) *quantity.UnitError {
	if problem := strict.CheckProse(text, maxFile, false, isString); problem != nil {
		return problem
	}
	if strings.HasPrefix(text, "~") && !strings.HasPrefix(text, "~/") {
		return wrong("write it in full; ~/ is your own home folder", "%q is in the home of another user", strict.Clip(text))
	}
	return nil
}

// checkArg takes any scalar: what YAML takes for a number is an argument like others.
func checkArg(text string, _ bool) *quantity.UnitError {
	if strings.ContainsRune(text, 0) || len(text) > maxArg {
		return wrong(fmt.Sprintf("write at most %d bytes, none of them zero", maxArg), "the argument is longer than a command can have")
	}
	return nil
}
