package session

import (
	"fmt"
	"net/netip"
	"reflect"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
)

// A test is told what was moved for others while it was watched, and for nobody of its own
// run; without a run of either it goes by the address.
func TestOthers(t *testing.T) {
	at := netip.MustParseAddr
	for _, c := range []struct {
		name  string
		tell  Telling
		other Client
		want  *measurement.OtherClients
	}{
		{"another run", TellAddress, Client{"theirs", at("192.0.2.2")}, &measurement.OtherClients{Count: 1, Address: "192.0.2.2", Bytes: 160}},
		{"another run behind the same address", TellAddress, Client{"theirs", at("192.0.2.1")}, &measurement.OtherClients{Count: 1, Address: "192.0.2.1", Bytes: 160}},
		{"a client that names no run", TellAddress, Client{"", at("192.0.2.2")}, &measurement.OtherClients{Count: 1, Address: "192.0.2.2", Bytes: 160}},
		{"one that may be the same", TellAddress, Client{"", at("192.0.2.1")}, nil},
		{"the same run from another address", TellAddress, Client{"mine", at("192.0.2.2")}, nil},
		{"without names", TellCount, Client{"theirs", at("192.0.2.2")}, &measurement.OtherClients{Count: 1, Bytes: 160}},
		{"without a word", TellNothing, Client{"theirs", at("192.0.2.2")}, nil},
	} {
		counts := NewCounts(c.tell)
		var long, short, own int64
		of := func(n *int64) func() int64 { return func() int64 { return *n } }
		counts.NewMeter(c.other).Add(false, of(&long))
		long = 1000 // before
		mine := counts.NewMeter(Client{"mine", at("192.0.2.1")})
		mine.Add(true, of(&own))
		watched := mine.watchOthers()
		if got := watched.told(); got != nil {
			t.Errorf("%s: %+v before anything moved", c.name, got)
		}
		own, long = 5000, 1100
		ended := counts.NewMeter(c.other).Add(true, of(&short)) // begins and ends meanwhile
		short = 50
		watched.told() // and again later
		short = 60
		ended()
		if got := watched.told(); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
		watched.end()
		if len(counts.watching) != 0 {
			t.Errorf("%s: it is watched for ever", c.name)
		}
	}
}

// Of any number of others as many as a bound are told apart, and all of what they moved.
func TestManyOthers(t *testing.T) {
	counts := NewCounts(TellAddress)
	watched := counts.NewMeter(Client{Run: "mine"}).watchOthers()
	for i := range 10 * maxOthers {
		n := int64(1 + i%maxOthers)
		counts.NewMeter(Client{fmt.Sprint("run ", i), netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})}).Add(false, func() int64 { return n })()
	}
	want := &measurement.OtherClients{Count: maxOthers, Address: fmt.Sprintf("192.0.2.%d", maxOthers-1), Bytes: 10 * maxOthers * (maxOthers + 1) / 2}
	if got := watched.told(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
