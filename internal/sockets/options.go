package sockets

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
)

// Paces says that a congestion control of this name sets a pacing rate by itself: BBR does,
// of any version.
func Paces(congestion string) bool { return strings.HasPrefix(congestion, "bbr") }

// Options are what a test asks of a socket beyond the defaults, where a zero
// field asks nothing, or what is in force there, where it is unknown. Other systems than
// Linux refuse those with the tag linux, by its name. The tags sends and receives name what
// is in force in the result of an end that does so.
type Options struct {
	// SendBuffer and ReceiveBuffer are in bytes, as asked: Linux doubles them.
	SendBuffer    int `sends:"send_buffer_bytes"`
	ReceiveBuffer int `receives:"receive_buffer_bytes"`
	MSS           int `linux:"MSS" sends:"mss_bytes"`             // bytes
	DSCP          int `linux:"DSCP" sends:"dscp" receives:"dscp"` // RFC 2474, 0 to 63
	// CongestionControl is the kernel's name of the algorithm.
	CongestionControl string `linux:"congestion control" sends:"congestion_control"`
	// Device is the network interface that the socket is bound to.
	Device string `linux:"device"`
	// ReusePort takes the chosen local port although the last test's
	// connections from it linger (SO_REUSEADDR, TIME_WAIT).
	ReusePort bool
	// LatePort chooses the port of a bound source address when the destination
	// is known, so that different destinations may share ports
	// (IP_BIND_ADDRESS_NO_PORT, ip(7)).
	LatePort bool
	// Backlog bounds in bytes what waits in the socket unsent, 0 does not
	// (TCP_NOTSENT_LOWAT, tcp(7)).
	Backlog int `sends:"unsent_low_water_bytes"`
}

// Effective is what a result says of the options in force at an end that sends or receives,
// by the names of their tags, without those that are unknown.
func (o Options) Effective(sends bool) map[string]string {
	end := "receives"
	if sends {
		end = "sends"
	}
	effective := map[string]string{}
	for i, all := 0, reflect.ValueOf(o); i < all.NumField(); i++ {
		if name := all.Type().Field(i).Tag.Get(end); name != "" && !all.Field(i).IsZero() {
			effective[name] = fmt.Sprint(all.Field(i))
		}
	}
	return effective
}

// AskedBy are the options of o without those that asked leaves to the kernel.
func (o Options) AskedBy(asked Options) Options {
	for i, all, was := 0, reflect.ValueOf(&o).Elem(), reflect.ValueOf(asked); i < all.NumField(); i++ {
		if was.Field(i).IsZero() {
			all.Field(i).SetZero()
		}
	}
	return o
}

// OptionsOf is what a spec asks of the socket of one flow. Only DSCP and MSS are for the
// connections of every kind of test.
func OptionsOf(spec measurement.Spec, sends bool) Options {
	o := Options{DSCP: spec.DSCP, MSS: spec.MSSBytes}
	if spec.Kind != measurement.TCP {
		return o
	}
	o.SendBuffer, o.ReceiveBuffer = int(spec.SendBufferBytes), int(spec.ReceiveBufferBytes)
	if sends {
		o.CongestionControl = spec.CongestionControl
	}
	return o
}
