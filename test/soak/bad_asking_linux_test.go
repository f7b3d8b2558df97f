package soak

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/protocol"
)

// Clients that ask for what no server should do.

// impossible are specs whose time is none, or without end.
var impossible = func() (all []measurement.Spec) {
	udp := measurement.Spec{Kind: measurement.UDP, Flows: 1, Direction: measurement.Send, Duration: 1, PacketBytes: 1000}
	back, udpBack, pps := shortTCP, udp, udp
	back.Direction, udpBack.Direction, pps.Kind = measurement.Receive, measurement.Receive, measurement.PPS
	for _, spec := range []measurement.Spec{shortTCP, back, udp, udpBack, pps, shortRR, shortMTU} {
		for _, idle := range []measurement.Seconds{-100, -1e300, 1e300, 8640000, 3601} {
			spec.IdleDuration = idle
			all = append(all, spec)
		}
		spec.IdleDuration, spec.MaxWarmup = 0, -100
		all = append(all, spec)
		spec.MaxWarmup, spec.Duration = 3601, 1
		all = append(all, spec)
	}
	return all
}()

// impossible asks for a test that is too short or too long, and starts it if the
// server takes it.
func (c *client) impossible(ctx context.Context, name string) {
	for range 4 {
		spec := impossible[c.r.IntN(len(impossible))]
		b, err := c.open(ctx, spec)
		if !c.note(ctx, name, err) {
			continue
		}
		c.finding("the server takes a test of kind %s with %v s of idle time and %v s of warm-up", spec.Kind, spec.IdleDuration, spec.MaxWarmup)
		if b.start(ctx, c) == nil {
			_, _ = b.Read(make([]byte, 1)) // whatever it does now
		}
		_ = b.Close() // the server may be gone
	}
}

// wild sends a spec of random fields, and starts what the server takes.
func (c *client) wild(ctx context.Context, name string) {
	for range 20 {
		text, err := json.Marshal(shortTCP.Defaults())
		if err != nil {
			return
		}
		spec := map[string]any{}
		if err := json.Unmarshal(text, &spec); err != nil {
			return
		}
		spec["kind"] = pick(c, measurement.Kinds()...)
		for range c.r.IntN(8) {
			spec[pick(c, wildFields...)] = pick(c, wildValues...)
		}
		err = c.wildTest(ctx, map[string]any{"spec": spec, "host_series": c.r.IntN(2) == 0})
		c.note(ctx, name, err)
	}
}

var (
	wildFields = specFields()
	wildValues = []any{0, 1, -1, 2, 0.001, 1000, 65507, 1 << 20, 1 << 31, 1e18, -1e300, 1e300, true, "", "tcp", "udp", "send", "receive", "both", "on", "copy", "zerocopy", "iperf3", steering}
)

// specFields are the names of a spec's fields in JSON.
func specFields() (names []string) {
	for f := range reflect.TypeFor[measurement.Spec]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

func pick[T any](c *client, of ...T) T { return of[c.r.IntN(len(of))] }

func (c *client) wildTest(ctx context.Context, open any) error {
	to, err := c.greeted(ctx, protocol.Identity{Session: c.session()}, 0)
	if err != nil {
		return err
	}
	defer to.Close()
	var ready protocol.Ready
	err = protocol.WriteFrame(to, protocol.TypeOpen, open)
	if err == nil {
		err = protocol.Expect(to, protocol.TypeReady, protocol.MaxControl, &ready)
	}
	if err != nil {
		return err
	}
	err = protocol.WriteFrame(to, protocol.TypeStart, nil)
	if err == nil {
		err = to.within(ctx, 300*time.Millisecond)
	}
	if err == nil {
		_, _ = to.Write(randomBytes(c.r, c.r.IntN(1<<16))) // the server may have hung up
		_, _ = to.Read(make([]byte, 1<<16))                // it may answer, too
	}
	return err
}

// steering is text that would clear a terminal and forge a line of the log.
const steering = "\x1b[2J\x1b[H\x1b]0;owned\x07\x1b[32m09:00:00  10.0.0.1  tcp, 1 flow: done in 1.0 s\r\n\u202e\u009b31m"

// forge writes into everything of which the server may tell its operator.
func (c *client) forge(ctx context.Context, name string) {
	long := steering + strings.Repeat("A", 8<<10)
	protocolText, congestion, method, device, kind := shortTCP, shortTCP, shortTCP, shortTCP, shortTCP
	protocolText.Protocol = measurement.Protocol(long)
	congestion.CongestionControl = long
	method.SendMethod = measurement.SendMethod(long)
	device.Device = long
	kind.Kind = measurement.Kind(long)
	for _, spec := range []measurement.Spec{protocolText, congestion, method, device, kind} {
		id := protocol.Identity{Session: c.session(), Test: steering}
		b, err := c.join(ctx, id, protocol.Open{Spec: spec, HostID: long})
		c.note(ctx, name, err)
		if err == nil {
			_ = b.start(ctx, c) // that it began is told,
			_ = b.Close()       // and that it is cut off
		}
	}
	to, err := c.greeted(ctx, protocol.Identity{Session: c.session(), Test: steering}, 0)
	if err != nil {
		return
	}
	defer to.Close()
	// An error's text comes from the other end, too.
	_ = protocol.WriteFrame(to, protocol.TypeError, protocol.RemoteError{Reason: steering, Message: long})
}

// stopLog has nobody read what the server says for a while, as a terminal that
// was stopped, while clients give it much to say.
func (c *client) stopLog(ctx context.Context, name string) {
	if !c.log.reading.TryLock() {
		return
	}
	defer c.log.reading.Unlock()
	for until := time.Now().Add(time.Duration(5+c.r.IntN(10)) * time.Second); time.Now().Before(until) && ctx.Err() == nil; {
		_, err := c.open(ctx, measurement.Spec{Kind: "none"})
		if _, ok := errors.AsType[*protocol.RemoteError](err); ok {
			err = nil // as it should be
		}
		if !c.note(ctx, name, err) {
			pause(ctx, 100*time.Millisecond)
		}
	}
}

// badDeeds are what bad clients do.
var badDeeds = []deed{
	{"impossible times", (*client).impossible}, {"wild specs", (*client).wild}, {"forged lines", (*client).forge}, {"stopped log", (*client).stopLog},
	{"slow before START", (*client).slowStart}, {"slow tests", (*client).slowTests}, {"slow request", (*client).slowRequest},
	{"slow after the end", (*client).wedge}, {"deaf", (*client).deaf},
	{"silent crowd", (*client).silent}, {"thread crowd", (*client).threads}, {"sampler crowd", (*client).samplers}, {"spinners", (*client).spin},
	{"mixed session", (*client).mixed}, {"shared session", (*client).otherAddress}, {"deaf transactions", (*client).transactions},
	{"iperf3 crowd", (*client).iperf3Streams}, {"iperf3 hogs", (*client).iperf3Hogs}, {"iperf3 lies", (*client).iperf3Lies},
	{"FTP listeners", (*client).listeners}, {"FTP deaf", (*client).deafFetch}, {"FTP lies", (*client).ftpLies}, {"FTP silent crowd", (*client).ftpCrowd},
	{"largest", (*client).largest}, {"largest", (*client).largest}, {"largest", (*client).largest},
}
