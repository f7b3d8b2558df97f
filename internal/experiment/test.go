package experiment

import (
	"reflect"
	"slices"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
)

// Bounds of a test's times and sizes.
const (
	minTestDuration = 10 * time.Millisecond
	maxTestDuration = 24 * time.Hour
	minWarmup       = time.Millisecond
	maxWarmup       = 10 * time.Minute
	minPingInterval = time.Millisecond
	maxPingInterval = time.Hour
	minProbeTimeout = time.Millisecond
	maxProbeTimeout = time.Minute
	// maxMessageBytes keeps a request within one UDP datagram (65507 bytes
	// over IPv4), so that rr means the same over either transport.
	maxMessageBytes = 64_000
	// minPingPayload leaves room for the identification of a reply.
	minPingPayload = 16
)

// KindsOf says which kinds of test a key of FileTest or FileFull applies to;
// a key that is not here applies to all.
func KindsOf(key string) []measurement.Kind {
	switch key {
	case "flows", "direction", "copy_payload":
		return []measurement.Kind{measurement.TCP}
	case "duration", "max_warmup":
		return []measurement.Kind{measurement.TCP, measurement.RR}
	case "request", "response":
		return []measurement.Kind{measurement.RR}
	case "protocol":
		return []measurement.Kind{measurement.RR, measurement.Trace}
	case "count", "interval", "payload":
		return []measurement.Kind{measurement.Ping}
	case "timeout":
		return []measurement.Kind{measurement.Ping, measurement.Trace}
	case "max_hops":
		return []measurement.Kind{measurement.Trace}
	case "full":
		return []measurement.Kind{measurement.TCP, measurement.RR, measurement.Ping}
	}
	return []measurement.Kind{measurement.TCP, measurement.RR, measurement.Ping, measurement.Trace}
}

func (l *loader) test(f *FileTest) Test {
	t := Test{Name: string(f.Name), Title: string(f.Title)}
	spec := measurement.Spec{
		Kind:          measurement.Kind(f.Kind),
		Duration:      l.between(&f.Duration, minTestDuration, maxTestDuration),
		MaxWarmup:     l.between(&f.MaxWarmup, minWarmup, maxWarmup),
		Flows:         f.Flows,
		Direction:     measurement.Direction(f.Direction),
		CopyPayload:   f.CopyPayload,
		Protocol:      measurement.Protocol(f.Protocol),
		RequestBytes:  l.size(&f.Request, 1),
		ResponseBytes: l.size(&f.Response, 1),
		Count:         f.Count,
		Interval:      l.between(&f.Interval, minPingInterval, maxPingInterval),
		PayloadBytes:  l.size(&f.Payload, minPingPayload),
		MaxHops:       f.MaxHops,
		Timeout:       l.between(&f.Timeout, minProbeTimeout, maxProbeTimeout),
	}
	l.applicable(reflect.ValueOf(f).Elem(), spec.Kind, f.Name)
	if spec.Kind == measurement.RR && spec.Protocol == measurement.OverICMP {
		l.wrong(&f.Protocol, "write tcp or udp, or use kind: ping", "a test of kind rr cannot be over icmp")
	}
	l.pingsOpen(spec, &f.Interval, &f.Timeout)
	full := spec
	if f.Full != nil {
		if slices.Contains(KindsOf("full"), spec.Kind) {
			l.applicable(reflect.ValueOf(f.Full).Elem(), spec.Kind, f.Name)
		}
		replace(&full.Duration, l.between(&f.Full.Duration, minTestDuration, maxTestDuration))
		replace(&full.MaxWarmup, l.between(&f.Full.MaxWarmup, minWarmup, maxWarmup))
		replace(&full.Count, f.Full.Count)
		replace(&full.Interval, l.between(&f.Full.Interval, minPingInterval, maxPingInterval))
		if full.Interval < spec.Interval {
			l.pingsOpen(full, &f.Full.Interval, &f.Timeout)
		}
	}
	t.Spec, t.Full = spec.Defaults(), full.Defaults()
	return t
}

// pingsOpen checks that the 16-bit sequence numbers of echo requests (RFC 792)
// cannot come round while an answer may still arrive.
func (l *loader) pingsOpen(spec measurement.Spec, interval, timeout *TimeText) {
	spec = spec.Defaults()
	if spec.Kind != measurement.Ping || spec.Interval <= 0 || spec.Timeout/spec.Interval < 1<<15 {
		return
	}
	at := timeout
	if !l.written(at) {
		at = interval
	}
	l.wrong(at, "shorten the timeout", "a timeout of %s leaves %.0f requests open at an interval of %s",
		FormatDuration(spec.Timeout.Duration()), float64(spec.Timeout/spec.Interval), FormatDuration(spec.Interval.Duration()))
}

// replace sets a field unless the new value says nothing.
func replace[T comparable](field *T, value T) {
	var zero T
	if value != zero {
		*field = value
	}
}

// applicable reports keys that mean nothing to the kind of test.
func (l *loader) applicable(v reflect.Value, kind measurement.Kind, test NameText) {
	if kind == "" {
		return
	}
	keys := keysOf(v.Type())
	var fitting []string
	for _, key := range keys {
		if key != "name" && key != "title" && key != "kind" && slices.Contains(KindsOf(key), kind) {
			fitting = append(fitting, key)
		}
	}
	for i, key := range keys {
		field := v.Field(i).Addr().Interface()
		if !l.written(field) || slices.Contains(KindsOf(key), kind) {
			continue
		}
		mend := "leave it out"
		if len(fitting) > 0 {
			mend += "; it can have " + oneOf(fitting)
		}
		l.misplaced(field, mend, "%s does not apply to test %q of kind %s", key, test, kind)
	}
}

// between reads a time and checks its bounds.
func (l *loader) between(field *TimeText, least, most time.Duration) measurement.Seconds {
	d := parsed(ParseDuration, *field)
	if *field != "" && (d < least || d > most) {
		l.wrong(field, "write a time from "+FormatDuration(least)+" to "+FormatDuration(most), "time %q is out of bounds", *field)
	}
	return measurement.SecondsOf(d)
}

func (l *loader) size(field *SizeText, least int64) int {
	n := parsed(ParseBytes, *field)
	if *field != "" && (n < least || n > maxMessageBytes) {
		l.wrong(field, "write a size from "+FormatBytes(least)+" to "+FormatBytes(maxMessageBytes), "size %q is out of bounds", *field)
		return 0
	}
	return int(n)
}
