package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testutil"
)

// aSeries is what a host may report of two moments.
func aSeries() *HostSeries {
	return &HostSeries{
		Host: "h", CPUs: 2, At: []float64{0, 1}, Busy: []float64{0.02, 0.01}, SoftIRQ: []float64{0, 0},
		Total: []float64{0, 2}, Busiest: [][]float64{{0, 1}}, Switches: []float64{1, 1},
		DropsCounted: true, Drops: []measurement.Drop{{Place: "eth0", Packets: 3}}, Squeezes: 1,
		OtherClients: &measurement.OtherClients{Count: 1, Address: "fe80::1", Bytes: 5},
	}
}

func aSample(at float64) measurement.TCPInfo {
	return measurement.TCPInfo{At: measurement.Seconds(at), RTT: 1e-4, CongestionWindow: 14480, MSS: 1448, PacingRate: 1.4e20}
}

const (
	anAddress = "192.0.2.1:5201"
	another   = "[fe80::1%eth0]:40000"
)

func aReady() *Ready {
	return &Ready{
		Client: another, Server: anAddress, ReceivedTTL: 64, Cookie: make([]byte, CookieBytes), MSS: 1448,
		FTP: &FTP{Port: 2121, User: "u", Password: "p", Path: "/x"},
	}
}

func aReceived() *Received {
	return &Received{
		Bins:    measurement.Bins{Width: 0.01, Bytes: []float64{0, 100}},
		Packets: &Packets{Bins: []float64{0, 2}, Sent: 3, Received: 2, Reordered: 1, Jitter: 1e-6, LeastDelay: -2},
		Clock:   &Clock{ID: "c", Start: 1, Uncertainty: 1e-6}, Host: aSeries(), Effective: map[string]string{"gro": "on"}, Facts: []string{"a fact"},
	}
}

func aSent() *Sent {
	last := aSample(2)
	return &Sent{
		Bytes: 300, MeasuredPackets: 3, PacketBytes: 100, Final: &last, Clock: &Clock{ID: "c", Start: 1, Uncertainty: 1e-6},
		Info: []measurement.TCPInfo{aSample(1), aSample(1), last}, Host: aSeries(),
	}
}

func aReport() *Report {
	return &Report{Answered: 5, Host: aSeries(), Transfers: []Transfer{{
		Offset: 1, Bytes: 2, Bins: &measurement.Bins{Width: 0.01, Bytes: []float64{2}}, Took: 0.01,
		Client: anAddress, Server: another, Info: []measurement.TCPInfo{aSample(0)},
	}}}
}

// lies changes a message of one kind in ways that none could be.
func lies[T any](honest func() *T, change map[string]func(*T)) map[string]any {
	all := map[string]any{"": honest()}
	for name, c := range change {
		m := honest()
		c(m)
		all[name] = m
	}
	return all
}

// aLie is any of the numbers that nobody counts.
var impossible = []float64{-1, 1e308, -1e308, 1 << 63}

func TestMessagesThatCannotBe(t *testing.T) {
	hosts := map[string]func(*HostSeries){
		"the clock runs backwards":   func(h *HostSeries) { h.At = []float64{1, 0.5} },
		"before the start":           func(h *HostSeries) { h.At[0] = -1 },
		"time that was taken back":   func(h *HostSeries) { h.Total = []float64{2, 1} },
		"switches that were":         func(h *HostSeries) { h.Switches = []float64{2, 1} },
		"a series that is shorter":   func(h *HostSeries) { h.Busy = h.Busy[:1] },
		"one that is longer":         func(h *HostSeries) { h.Total = append(h.Total, 3) },
		"none of the busiest":        func(h *HostSeries) { h.Busiest[0] = nil },
		"switches of another length": func(h *HostSeries) { h.Switches = h.Switches[:1] },
		"a difference without end":   func(h *HostSeries) { h.Busy = []float64{-1e308, 1e308} },
		"more processors than there": func(h *HostSeries) { h.CPUs = 1 << 40 },
		"fewer than none":            func(h *HostSeries) { h.CPUs = -1 },
		"packets that were found":    func(h *HostSeries) { h.Drops[0].Packets = -1 },
		"more than all lost":         func(h *HostSeries) { h.Drops[0].Packets = 1e300 },
		"places without end":         func(h *HostSeries) { h.Drops = make([]measurement.Drop, maxDrops+1) },
		"squeezes below none":        func(h *HostSeries) { h.Squeezes = -1 },
		"clients that are none":      func(h *HostSeries) { h.OtherClients.Count = 0 },
		"a client that took back":    func(h *HostSeries) { h.OtherClients.Bytes = -1 },
		"a client by name":           func(h *HostSeries) { h.OtherClients.Address = "example.org" },
		"a client at a device":       func(h *HostSeries) { h.OtherClients.Address = "fe80::1%a b" },
		"samples without end": func(h *HostSeries) {
			*h = HostSeries{At: make([]float64, maxSeries+1), Busy: make([]float64, maxSeries+1), SoftIRQ: make([]float64, maxSeries+1), Total: make([]float64, maxSeries+1)}
		},
		"single processors without end": func(h *HostSeries) { h.Busiest = make([][]float64, maxBusiest+1) },
		"busy without a time for that":  func(h *HostSeries) { h.At = nil },
	}
	samples := map[string]func(*measurement.TCPInfo){
		"a time that is over before":    func(i *measurement.TCPInfo) { i.At = -1 },
		"a round trip back in time":     func(i *measurement.TCPInfo) { i.RTT = -1 },
		"one of 1e300 s":                func(i *measurement.TCPInfo) { i.RTT = 1e300 },
		"a least one below none":        func(i *measurement.TCPInfo) { i.MinRTT = -1e-9 },
		"a window of less than nothing": func(i *measurement.TCPInfo) { i.CongestionWindow = -1 },
		"segments unsent again":         func(i *measurement.TCPInfo) { i.Retransmits = -5 },
		"an MSS of -1":                  func(i *measurement.TCPInfo) { i.MSS = -1 },
		"bytes beyond all":              func(i *measurement.TCPInfo) { i.SentBytes = 1 << 62 },
		"a rate beyond all":             func(i *measurement.TCPInfo) { i.PacingRate = 1e300 },
		"limits of less than no time":   func(i *measurement.TCPInfo) { i.ReceiveWindowTime = -1 },
	}
	received := map[string]func(*Received){
		"more came than was sent":   func(r *Received) { r.Packets.Received = r.Packets.Sent + 1 },
		"more late than came":       func(r *Received) { r.Packets.Reordered = 3 },
		"other bins of packets":     func(r *Received) { r.Packets.Bins = r.Packets.Bins[:1] },
		"bins without end":          func(r *Received) { r.Bins.Bytes = make([]float64, maxBins+1) },
		"a negative one of packets": func(r *Received) { r.Packets.Bins[1] = -1 },
	}
	sent := map[string]func(*Sent){
		"packets larger than their bytes": func(s *Sent) { s.PacketBytes = 101 },
		"a packet of -1 byte":             func(s *Sent) { s.PacketBytes = -1 },
		"a clock that runs backwards":     func(s *Sent) { s.Info[0].At = 5 },
		"samples without end":             func(s *Sent) { s.Info = make([]measurement.TCPInfo, maxSeries+1) },
	}
	report := map[string]func(*Report){
		"transfers without end":       func(r *Report) { r.Transfers = make([]Transfer, maxFiles+1) },
		"a client that is nowhere":    func(r *Report) { r.Transfers[0].Client = "here" },
		"a server that is nowhere":    func(r *Report) { r.Transfers[0].Server = "192.0.2.1" },
		"a clock that runs backwards": func(r *Report) { r.Transfers[0].Info = []measurement.TCPInfo{aSample(2), aSample(1)} },
	}
	ready := map[string]func(*Ready){
		"a client without an address": func(r *Ready) { r.Client = "" },
		"a name for one":              func(r *Ready) { r.Client = "example.org:80" },
		"a server without a port":     func(r *Ready) { r.Server = "192.0.2.1:0" },
		"half a cookie":               func(r *Ready) { r.Cookie = r.Cookie[:8] },
		"no cookie":                   func(r *Ready) { r.Cookie = nil },
		"a long cookie":               func(r *Ready) { r.Cookie = make([]byte, 1e4) },
		"an MSS of -1":                func(r *Ready) { r.MSS = -1 },
		"a time to live of 256":       func(r *Ready) { r.ReceivedTTL = 256 },
		"FTP at port 0":               func(r *Ready) { r.FTP.Port = 0 },
		"FTP at port 99999":           func(r *Ready) { r.FTP.Port = 99999 },
	}
	for name, change := range hosts {
		received[name] = func(r *Received) { change(r.Host) }
		sent[name] = func(s *Sent) { change(s.Host) }
		report[name] = func(r *Report) { change(r.Host) }
	}
	for name, change := range samples {
		sent[name] = func(s *Sent) { change(s.Final) }
		sent[name+", among others"] = func(s *Sent) { change(&s.Info[0]) }
		report[name] = func(r *Report) { change(&r.Transfers[0].Info[0]) }
	}
	for _, v := range impossible {
		received[fmt.Sprint("bin of bytes ", v)] = func(r *Received) { r.Bins.Bytes[0] = v }
		received[fmt.Sprint("bin of packets ", v)] = func(r *Received) { r.Packets.Bins[0] = v }
		received[fmt.Sprint("width ", v)] = func(r *Received) { r.Bins.Width = measurement.Seconds(v) }
		received[fmt.Sprint("jitter ", v)] = func(r *Received) { r.Packets.Jitter = measurement.Seconds(v) }
		received[fmt.Sprint("median of the delay's variation ", v)] = func(r *Received) { r.Packets.DelayMedian = measurement.Seconds(v) }
		received[fmt.Sprint("uncertainty ", v)] = func(r *Received) { r.Clock.Uncertainty = measurement.Seconds(v) }
		report[fmt.Sprint("time ", v)] = func(r *Report) { r.Transfers[0].Took = measurement.Seconds(v) }
		report[fmt.Sprint("bin of bytes ", v)] = func(r *Report) { r.Transfers[0].Bins.Bytes[0] = v }
	}
	for _, n := range []int64{-1, 1 << 62, -1 << 63} {
		received[fmt.Sprint("duplicated ", n)] = func(r *Received) { r.Packets.Duplicated = n }
		received[fmt.Sprint("start ", n)] = func(r *Received) { r.Clock.Start = n }
		sent[fmt.Sprint("start ", n)] = func(s *Sent) { s.Clock.Start = n }
		received[fmt.Sprint("dropped ", n)] = func(r *Received) { r.Packets.BufferDrops = n }
		received[fmt.Sprint("received ", n)] = func(r *Received) { r.Packets.Received = n }
		sent[fmt.Sprint("packets ", n)] = func(s *Sent) { s.MeasuredPackets = n }
		sent[fmt.Sprint("bytes ", n)] = func(s *Sent) { s.Bytes = n }
		report[fmt.Sprint("answered ", n)] = func(r *Report) { r.Answered = n }
		report[fmt.Sprint("transfer of bytes ", n)] = func(r *Report) { r.Transfers[0].Bytes = n }
		report[fmt.Sprint("offset ", n)] = func(r *Report) { r.Transfers[0].Offset = n }
	}
	for kind, all := range map[Type]map[string]any{
		TypeReceived: lies(aReceived, received), TypeSent: lies(aSent, sent), TypeReport: lies(aReport, report), TypeReady: lies(aReady, ready),
		TypeReached:   lies(func() *Reached { return &Reached{Client: anAddress} }, map[string]func(*Reached){"nowhere": func(r *Reached) { r.Client = "x" }}),
		TypeChallenge: lies(func() *Challenge { return &Challenge{Nonce: make([]byte, NonceBytes)} }, map[string]func(*Challenge){"short": func(c *Challenge) { c.Nonce = c.Nonce[1:] }}),
	} {
		for lie, message := range all {
			t.Run(fmt.Sprintf("%#x %s", byte(kind), lie), func(t *testing.T) {
				payload, err := json.Marshal(message)
				testutil.OK(t, err)
				got := reflect.New(reflect.TypeOf(message).Elem()).Interface()
				switch err := Decode(kind, payload, kind, got); {
				case lie == "" && err != nil:
					t.Errorf("an honest one: %v", err)
				case lie == "" && !reflect.DeepEqual(got, message):
					t.Errorf("got %+v, want %+v", got, message)
				case lie != "" && !errors.Is(err, ErrMalformed):
					t.Errorf("got %v, want ErrMalformed", err)
				}
			})
		}
	}
}

// messages makes one of each that a peer sends and an end keeps.
var messages = map[Type]func() any{
	TypeHello: func() any { return new(Hello) }, TypeChallenge: func() any { return new(Challenge) },
	TypeProof: func() any { return new(Proof) }, TypeOpen: func() any { return new(Open) },
	TypeReady: func() any { return new(Ready) }, TypeReceived: func() any { return new(Received) },
	TypeSent: func() any { return new(Sent) }, TypeReport: func() any { return new(Report) },
	TypeReached: func() any { return new(Reached) }, TypeError: func() any { return new(RemoteError) },
}

// notPrintable is the first text below v that is not fit to be shown.
func notPrintable(v reflect.Value) string {
	bad := ""
	check := func(s string) {
		if bad == "" && (utf8.RuneCountInString(s) > 1000 || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })) {
			bad = s
		}
	}
	switch v.Kind() {
	case reflect.String:
		check(v.String())
	case reflect.Pointer:
		if !v.IsNil() {
			check(notPrintable(v.Elem()))
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			check(notPrintable(field))
		}
	case reflect.Slice:
		for i := range v.Len() {
			check(notPrintable(v.Index(i)))
		}
	case reflect.Map:
		for each := v.MapRange(); each.Next(); {
			check(notPrintable(each.Key()))
			check(notPrintable(each.Value()))
		}
	}
	return bad
}

const forged = "\x1b]0;owned\x07\x1b[2J\r\n09:00:00 10.0.0.1: done\u202e\u0085\u2028\x00"

// Every text of every message is one line that shows what it says, and short.
func TestTextsOfMessages(t *testing.T) {
	long := forged + strings.Repeat("x", 1<<20-1<<16)
	for kind, make := range messages {
		for _, text := range []string{forged, long} {
			m := make()
			fill(reflect.ValueOf(m).Elem(), text)
			payload, err := json.Marshal(m)
			testutil.OK(t, err)
			got := make()
			err = Decode(kind, payload, kind, got) // addresses, for one, may be refused
			if bad := notPrintable(reflect.ValueOf(got)); bad != "" {
				t.Errorf("%#x keeps %.40q", byte(kind), bad)
			}
			if err != nil && notPrintable(reflect.ValueOf(err.Error())) != "" {
				t.Errorf("%#x is refused with %.40q", byte(kind), err)
			}
		}
	}
	got := new(Received)
	texts := Received{Effective: map[string]string{}}
	for i := range 1000 {
		texts.Effective[fmt.Sprint(i)], texts.Facts = long[:5000], append(texts.Facts, "f")
	}
	payload, _ := json.Marshal(texts)
	if err := Decode(TypeReceived, payload, TypeReceived, got); err != nil || len(got.Effective) > 100 || len(got.Facts) > 100 {
		t.Errorf("%d texts and %d facts, %v", len(got.Effective), len(got.Facts), err)
	}
}

// fill sets every text below v, one in each list.
func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field, text)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.String || v.Type().Elem().Kind() == reflect.Struct {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0), text)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(text[:min(len(text), 1000)]), reflect.ValueOf(text[:min(len(text), 1000)]))
	}
}

// What is not JSON, or of another type, is quoted in the error.
func TestErrorsOfMessages(t *testing.T) {
	for _, payload := range []string{
		"\x1b[2J", `{"answered":` + strings.Repeat("9", 1<<19) + `}`, `{"answered":"` + "\x1b" + `"}`, `{"` + "\u202e" + `":`, `[]`, `""`, "",
		`{"answered":1e400}`, `{"host":{"at_seconds":[NaN]}}`, `{"answered":0.5}`,
	} {
		err := Decode(TypeReport, []byte(payload), TypeReport, new(Report))
		if !errors.Is(err, ErrMalformed) || notPrintable(reflect.ValueOf(err.Error())) != "" || len(err.Error()) > 400 {
			t.Errorf("%.20q: %v", payload, err)
		}
	}
}

// Whatever a peer writes, an end has either an error that can be shown or a message
// whose texts can be and whose numbers were counted.
func FuzzMessages(f *testing.F) {
	for kind, message := range map[Type]any{
		TypeReceived: aReceived(), TypeSent: aSent(), TypeReport: aReport(), TypeReady: aReady(),
		TypeHello: Hello{Identity: testID, Nonce: make([]byte, NonceBytes)}, TypeError: RemoteError{Reason: "limit", Message: forged},
		TypeOpen: Open{Spec: measurement.Spec{Kind: measurement.TCP}.Defaults()}, TypeReached: Reached{Client: anAddress},
	} {
		payload, err := json.Marshal(message)
		testutil.OK(f, err)
		f.Add(byte(kind), payload)
	}
	f.Fuzz(func(t *testing.T, kind byte, payload []byte) {
		make := messages[Type(kind)]
		if make == nil {
			return
		}
		m := make()
		err := Decode(Type(kind), payload, Type(kind), m)
		if err != nil {
			if !errors.Is(err, ErrMalformed) || notPrintable(reflect.ValueOf(err.Error())) != "" {
				t.Errorf("%q", err)
			}
			return
		}
		if bad := notPrintable(reflect.ValueOf(m)); bad != "" {
			t.Errorf("keeps %.40q", bad)
		}
		if _, err := Encode(Type(kind), m); err != nil {
			t.Errorf("cannot be passed on: %v", err)
		}
	})
}
