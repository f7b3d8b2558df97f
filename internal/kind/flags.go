package kind

import (
	"slices"

	"github.com/hopbench/hopbench/internal/measurement"
)

// Flag is a flag of the command line that shapes tests.
type Flag struct {
	Name, Short string
	Aliases     []string // the long names that iperf3 has for it
	Doc         string
	Default     string // what holds without it, where that needs saying
	Type        Type
	// Least is the smallest value where 0 would be taken for the default, else empty.
	Least string
	Words []string // of a Word
	// Shared flags do not say which kind of test is meant.
	Shared bool
	// Excludes is a flag that cannot stand beside it.
	Excludes string
	Settings []Setting
}

// Setting is what a flag does to the tests of some kinds.
type Setting struct {
	Kinds   []measurement.Kind
	Options []string // may be none: the flag then shapes what is shown, or says whom to ask
	Value   any      // what the options become; nil for the flag's own value
	// Each divides the flag's value among the flows of the test.
	Each bool
}

// Flags lists the flags: those of the options and those that set options under
// another name, in the order in which they are applied. What an option's own flag
// says is preferred to what another sets, and the rate comes after the number of
// flows that it is divided by.
func Flags() []Flag {
	flags := slices.Clone(otherFlags)
	for _, o := range options {
		if o.Flag != "" {
			fallback := o.DefaultText()
			if o.Type == Truth {
				fallback = ""
			}
			least := ""
			if o.Limits.Least > 0 && slices.ContainsFunc(o.Kinds, o.hasDefault) {
				least = o.Format(o.Limits.Least)
			}
			flags = append(flags, Flag{
				Name: o.Flag, Short: o.Short, Aliases: o.Aliases, Doc: o.Doc, Default: fallback, Type: o.Type, Least: least, Words: o.AllWords(), Shared: o.Shared,
				Settings: []Setting{{Kinds: o.Kinds, Options: []string{o.Name}}},
			})
		}
	}
	return append(flags, rateFlag)
}

// AllWords are those of any kind.
func (o Option) AllWords() (words []string) {
	for _, k := range o.Kinds {
		for _, w := range o.For(k).Words {
			if !slices.Contains(words, w) {
				words = append(words, w)
			}
		}
	}
	return words
}

var otherFlags = []Flag{
	{
		Name: "reverse", Short: "R", Type: Truth, Doc: "the server sends, this host receives; always so in an ftp test",
		Settings: []Setting{{Kinds: sending, Options: []string{"direction"}, Value: string(measurement.Receive)}},
	},
	{
		Name: "bidir", Type: Truth, Excludes: "reverse", Doc: "both ends send at the same time, on separate flows",
		Settings: []Setting{{Kinds: streams, Options: []string{"direction"}, Value: string(measurement.Both)}},
	},
	{
		Name: "upload", Type: Truth, Doc: "this host stores the file, in one piece",
		Settings: []Setting{{Kinds: of(ftp), Options: []string{"direction"}, Value: string(measurement.Send)}},
	},
	{
		Name: "zerocopy", Short: "Z", Type: Truth, Doc: "zero-copy send: splice(2), sendfile(2)",
		Settings: []Setting{{Kinds: copying, Options: []string{"send_method"}, Value: string(measurement.SendZerocopy)}},
	},
	{
		Name: "copy", Type: Truth, Excludes: "zerocopy", Doc: "copy the payload at both ends, as an application does: send(2), and the receiver copies to user space",
		Settings: []Setting{
			{Kinds: copying, Options: []string{"send_method"}, Value: string(measurement.SendCopy)},
			{Kinds: copying, Options: []string{"copy_payload"}, Value: true},
		},
	},
	{
		Name: "iperf3", Type: Truth, Doc: "the other end is a stock iperf3 server",
		Settings: []Setting{{Kinds: of(tcp, udp), Options: []string{"protocol"}, Value: string(measurement.IPerf3)}},
	},
	{
		Name: "tos", Short: "S", Type: TOS, Shared: true, Excludes: "dscp", Doc: "type of service byte of the packets; its lower two bits are ECN's and must be 0",
		Settings: []Setting{{Kinds: served, Options: []string{"dscp"}}},
	},
	{
		Name: "length", Short: "l", Aliases: []string{"len"}, Type: Size, Doc: "payload of each packet (udp, pps, ping), or size of request and response (rr, crr)",
		Settings: []Setting{
			{Kinds: packets, Options: []string{"packet"}},
			{Kinds: of(rr, crr), Options: []string{"request", "response"}},
			{Kinds: of(ping), Options: []string{"payload"}},
		},
	},
	{
		Name: "interval", Short: "i", Type: Time, Doc: "print the received rate in these intervals, from the start; ping: time between requests (20ms)",
		Settings: []Setting{
			{Kinds: of(ping), Options: []string{"interval"}},
			{Kinds: directed},
		},
	},
	{Name: "ftp-server", Type: Text, Doc: "a stock FTP server, as HOST[:PORT] (port 21), instead of hopbench serve", Settings: []Setting{{Kinds: of(ftp)}}},
	{Name: "ftp-user", Type: Text, Doc: "user there (default anonymous)", Settings: []Setting{{Kinds: of(ftp)}}},
	{Name: "ftp-password-file", Type: File, Doc: "file that holds that user's password", Settings: []Setting{{Kinds: of(ftp)}}},
}

// rateFlag is that of all flows together.
var rateFlag = Flag{
	Name: "rate", Short: "b", Aliases: []string{"bitrate", "bandwidth"}, Type: Rate, Shared: true,
	Doc: "rate of all flows together, of each direction if both ends send, 0 for unlimited (the default); tcp, load: paces the flows; profile: the bottleneck bandwidth for RFC 6349",
	Settings: []Setting{
		{Kinds: packets, Options: []string{"rate"}},
		{Kinds: streams, Options: []string{"pacing"}, Each: true},
	},
}

// Kinds lists the kinds of test that take the flag, in their usual order.
func (f Flag) Kinds() []measurement.Kind { return those(func(k Kind) bool { return f.Takes(k.Name) }) }

// Takes says whether a kind of test has the flag.
func (f Flag) Takes(kind measurement.Kind) bool {
	return slices.ContainsFunc(f.Settings, func(s Setting) bool { return slices.Contains(s.Kinds, kind) })
}

// Sets says whether the flag sets an option for a kind of test.
func (f Flag) Sets(kind measurement.Kind, option string) bool {
	return slices.ContainsFunc(f.Settings, func(s Setting) bool {
		return slices.Contains(s.Kinds, kind) && slices.Contains(s.Options, option)
	})
}

// Apply does to a spec what the flag does with this value.
func (f Flag) Apply(s *measurement.Spec, value any) {
	for _, set := range f.Settings {
		if !slices.Contains(set.Kinds, s.Kind) {
			continue
		}
		v := value
		if set.Value != nil {
			v = set.Value
		}
		if number, ok := v.(float64); ok && set.Each {
			v = number / float64(max(s.Defaults().Flows, 1))
		}
		for _, name := range set.Options {
			if o, ok := Find(s.Kind, name); ok {
				o.Set(s, v)
			}
		}
	}
}
