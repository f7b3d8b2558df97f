package inventory

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/strict"
)

// kindRow is what a kind of testbed is to its file.
type kindRow struct {
	name string // as result.Testbed has it
	// keys of File, and of FilePath, that not all kinds take.
	keys, pathKeys []string
	// reach are the ways to its endpoints, forms how they are written.
	reach []Scheme
	forms string
	// networks says that a path leads to a network, in which each destination has its own
	// address; otherwise it leads to one address.
	networks bool
	// load reads the keys of the kind's own and checks what only it demands; match checks
	// that an experiment can run there. Either may be nil.
	load  func(*loader, *Inventory)
	match func(*loader, *experiment.Experiment)
}

// kindTable has a row for every kind, in the order of documents.
func kindTable() []kindRow {
	return []kindRow{
		{
			name: result.TestbedHosts, keys: []string{"switches", "hops"}, pathKeys: []string{"listen", "from", "set", "hops"},
			reach: []Scheme{ReachLocal, ReachTLS, ReachSSH, ReachServe},
			forms: "local (this process), tls://HOST:PORT (hopbench agent), ssh://USER@HOST (sshd alone) or serve://HOST:PORT (hopbench serve, only as a destination)",
			match: (*loader).onePair,
		},
		{
			name: result.TestbedFleet, keys: []string{"broker", "queue"},
			reach: []Scheme{ReachFleet}, forms: "fleet://NAME=VALUE, with a label that its machines are started with",
			networks: true, load: (*loader).fleet, match: (*loader).fitsFleet,
		},
	}
}

// Scheme is how an end is reached.
type Scheme string

// The schemes.
const (
	ReachLocal Scheme = "local" // this process
	ReachTLS   Scheme = "tls"   // hopbench agent --listen
	ReachSSH   Scheme = "ssh"   // sshd alone
	ReachServe Scheme = "serve" // hopbench serve; only as a destination
	ReachFleet Scheme = "fleet" // the machines of a fleet that have a label
)

// Reach is how an end is reached.
type Reach struct {
	Scheme Scheme
	User   string // ssh; may be empty
	Host   string // name or address; empty for local
	Port   uint16 // 0: the scheme's own
	Label  string // fleet, as in role=client
}

func parseReach(text string) (Reach, error) {
	if text == string(ReachLocal) {
		return Reach{Scheme: ReachLocal}, nil
	}
	scheme, rest, found := strings.Cut(text, "://")
	if Scheme(scheme) == ReachFleet {
		if !regexp.MustCompile(labelPattern).MatchString(rest) {
			return Reach{}, wrong("write one as in fleet://role=client", "%q names no label of machines", strict.Clip(text))
		}
		return Reach{Scheme: ReachFleet, Label: rest}, nil
	}
	r := Reach{Scheme: Scheme(scheme)}
	if !found || r.Scheme != ReachTLS && r.Scheme != ReachSSH && r.Scheme != ReachServe {
		return Reach{}, wrong("write "+kindRowOf(result.TestbedHosts).forms, "%q says no way to reach an endpoint", strict.Clip(text))
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		r.User, rest = rest[:at], rest[at+1:]
		switch {
		case r.Scheme != ReachSSH:
			return Reach{}, wrong("leave it out; the token_file proves who asks", "%q has a user, which %s:// does not know", strict.Clip(text), scheme)
		case strings.ContainsRune(r.User, ':'):
			return Reach{}, wrong("leave the password out; have ssh use a key or its agent", "%q has a password", strict.Clip(r.User[:strings.IndexByte(r.User, ':')]+":…@"+rest))
		case !regexp.MustCompile(userPattern).MatchString(r.User):
			return Reach{}, wrong("write it as in ssh://ops@"+rest, "%q is no name of a user", strict.Clip(r.User))
		}
	}
	if strings.ContainsAny(rest, "/?#") {
		return Reach{}, wrong("leave out what follows the host", "%q is more than a host and a port", strict.Clip(text))
	}
	var err error
	r.Host, r.Port, err = splitHost(rest)
	if err != nil {
		return Reach{}, err
	}
	return r, nil
}

// whole is the reach with the port that a file may leave out; that of ssh is in its own
// configuration.
func (r Reach) whole() Reach {
	switch r.Scheme {
	case ReachTLS:
		r.Port = cmp.Or(r.Port, AgentPort)
	case ReachServe:
		r.Port = cmp.Or(r.Port, measurement.DefaultPort)
	}
	return r
}

// String is the reach as a testbed file has it.
func (r Reach) String() string {
	if r.Scheme == ReachLocal {
		return string(r.Scheme)
	}
	host := cmp.Or(r.Label, r.Host)
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if r.Port != 0 {
		host += ":" + strconv.Itoa(int(r.Port))
	}
	if r.User != "" {
		host = r.User + "@" + host
	}
	return string(r.Scheme) + "://" + host
}

// Kinds lists the kinds of testbeds that files describe.
func Kinds() (names []string) {
	for _, r := range kindTable() {
		names = append(names, r.name)
	}
	return names
}

// kindRowOf is the row of a kind, an empty one for a kind that there is not.
func kindRowOf(name string) kindRow {
	rows := kindTable()
	if i := slices.IndexFunc(rows, func(r kindRow) bool { return r.name == name }); i >= 0 {
		return rows[i]
	}
	return kindRow{}
}

// takers are the kinds that take a key, which keys gives of a row; all where no kind has it
// as its own.
func takers(key string, keys func(kindRow) []string) (names []string) {
	for _, r := range kindTable() {
		if slices.Contains(keys(r), key) {
			names = append(names, r.name)
		}
	}
	if len(names) == 0 {
		return Kinds()
	}
	return names
}

// takes says whether a file of its kind takes a key.
func takes(in reflect.Type, key string, text func(key string) string) bool {
	named := text("kind")
	return in != reflect.TypeFor[File]() || !slices.Contains(Kinds(), named) || slices.Contains(takers(key, keysOfFile), named)
}

// reaching lists the kinds whose endpoints can be reached that way, for a message.
func reaching(s Scheme) string {
	var names []string
	for _, r := range kindTable() {
		if slices.Contains(r.reach, s) {
			names = append(names, r.name)
		}
	}
	return kind.Either(names)
}

func keysOfFile(r kindRow) []string { return r.keys }
func keysOfPath(r kindRow) []string { return r.pathKeys }

// ofKind checks that the file has nothing that its kind of testbed does not take.
func (l *loader) ofKind(row kindRow) {
	l.onlyKeys(l.file, row, keysOfFile, "the file has ")
	for i := range l.file.Endpoints {
		e := &l.file.Endpoints[i]
		if r := strict.Parsed(parseReach, e.Value.Reach); r.Scheme != "" && !slices.Contains(row.reach, r.Scheme) {
			l.Wrong(&e.Value.Reach, "write kind: "+reaching(r.Scheme)+", or "+row.forms, "endpoint %q is reached by %s, which is not for kind: %s", e.Key, r.Scheme, row.name)
		}
	}
	for i := range l.file.Paths {
		p := &l.file.Paths[i]
		l.onlyKeys(&p.Value, row, keysOfPath, fmt.Sprintf("path %q has ", p.Key))
		switch t := strict.Parsed(parseTarget, p.Value.To); {
		case row.networks && t.address.IsValid():
			bits := t.address.Addr().BitLen()
			l.Wrong(&p.Value.To, fmt.Sprintf("write the network, as in %v/%d, or one that is larger", t.address.Addr(), bits), "path %q leads to one address, and with kind: %s each destination has its own", p.Key, row.name)
		case !row.networks && t.network.IsValid():
			l.Wrong(&p.Value.To, "write the destination's address", "path %q leads to a network, and with kind: %s each path leads to one address", p.Key, row.name)
		}
	}
}

// onlyKeys refuses the keys of a part of the file, a pointer to a struct, that a kind does
// not take.
func (l *loader) onlyKeys(part any, row kindRow, keys func(kindRow) []string, where string) {
	v := reflect.ValueOf(part).Elem()
	for i, key := range strict.KeysOf(v.Type()) {
		of := takers(key, keys)
		if field := v.Field(i).Addr().Interface(); !slices.Contains(of, row.name) && l.Written(field) {
			l.Misplaced(field, "leave it out, or write kind: "+kind.Either(of), "%s%s:, which is not for kind: %s", where, key, row.name)
		}
	}
}

// onePair checks that an experiment has one pair of ends.
func (l *loader) onePair(e *experiment.Experiment) {
	if e.Pairs > 1 {
		l.Wrong(&l.file.Endpoints, "give the experiment pairs: 1", "experiment %s has %d pairs of a source and a destination, and a testbed of hosts has one", e.Name, e.Pairs)
	}
}
