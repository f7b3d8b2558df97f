package words

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
)

// needless are options that change nothing of the traffic, or have words only where there are
// several of something.
var needless = []string{"file_crc32", "share_threads", "pairs", "in_flight"}

// Spec is how a test was done, in a line: what phrases has no words for is said by the
// option's name.
func Spec(s measurement.Spec) string {
	text, end := phrases(s), ""
	for _, o := range kind.Options() {
		value := o.Get(s)
		if !o.Takes(s.Kind) || kind.IsZero(value) || slices.Contains(needless, o.Name) {
			continue
		}
		without := s
		o.Set(&without, reflect.Zero(reflect.TypeOf(value)).Interface())
		if phrases(without) == text {
			end += ", " + optionText(o, value)
		}
	}
	return text + end
}

// optionText is an option and its value.
func optionText(o kind.Option, value any) string {
	name := strings.ReplaceAll(o.Name, "_", " ")
	number, _ := value.(float64)
	switch o.Type {
	case kind.Truth:
		return name
	case kind.Time:
		return name + " " + Time(measurement.Seconds(number))
	case kind.Size:
		return name + " " + Value(number, measurement.Bytes)
	case kind.Rate:
		return name + " " + Value(number, measurement.BitsPerSecond)
	case kind.Share:
		return name + " " + Percent(number)
	}
	return name + " " + o.Format(value)
}

// phrases are the options that have words of their own.
func phrases(s measurement.Spec) string {
	parts := []string{string(s.Kind)}
	add := func(ok bool, format string, args ...any) {
		if ok {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(s.Tool != measurement.Native, "in iperf3's protocol")
	add(s.FileBytes > 0, "a file of %s", Value(float64(s.FileBytes), measurement.Bytes))
	add(s.FilePath != "", "%s of a stock server", s.FilePath)
	k, _ := kind.Of(s.Kind)
	add(s.Flows > 0, "%s%s", quantity.Count(s.Flows, cmp.Or(k.Flow, "flow")), k.Several)
	add(s.Protocol != "", "over %s", string(s.Protocol))
	add(s.Direction == measurement.Receive, "destination sends")
	add(s.Direction == measurement.Both, "both ends send")
	add(s.IdleDuration > 0, "%s without load first", Time(s.IdleDuration))
	add(s.Duration > 0, "%s measured", Time(s.Duration))
	add(s.MaxWarmup > 0, "warm-up up to %s", Time(s.MaxWarmup))
	add(s.Count > 0, "%d requests", s.Count)
	add(s.Interval > 0, "every %s", Time(s.Interval))
	add(s.RequestBytes > 0 || s.ResponseBytes > 0, "%d B request, %d B response", s.RequestBytes, s.ResponseBytes)
	add(s.PayloadBytes > 0, "%d B payload", s.PayloadBytes)
	add(s.WindowBytes > 0, "receive window %s", Value(float64(s.WindowBytes), measurement.Bytes))
	add(s.MSSBytes > 0, "segments up to %d B", s.MSSBytes)
	add(s.PacingBitsPerSecond > 0, "paced at %s", Value(s.PacingBitsPerSecond, measurement.BitsPerSecond))
	add(s.SendMethod != measurement.SendFast, "sent by %s", string(s.SendMethod))
	add(s.CopyPayload, "payload copied by the receiver")
	add(s.SenderPause > 0, "a sending program that waits %s after each 64 KiB", Time(s.SenderPause))
	add(s.SenderBurn > 0, "a sending program that works %s for each 64 KiB", Time(s.SenderBurn))
	add(s.ReceiverPause > 0, "a receiving program that waits %s after each 64 KiB", Time(s.ReceiverPause))
	add(s.ReceiverBurn > 0, "a receiving program that works %s for each 64 KiB", Time(s.ReceiverBurn))
	add(s.MPTCP, "Multipath TCP")
	parts = append(parts, datagramText(s)...)
	add(s.RequestsPerSecond > 0, "%s requests/s at their intended times", stated(s.RequestsPerSecond, quantity.Scale{Factor: 1}))
	add(s.InFlight > 1, "%d requests in flight", s.InFlight)
	add(s.Spin, "both ends poll")
	add(s.Colocate, "both ends on one CPU")
	add(s.DSCP > 0, "DSCP %d", s.DSCP)
	add(s.SourcePort > 0, "from port %d", s.SourcePort)
	add(s.Device != "", "through %s", s.Device)
	add(s.Ramp > 0, "starts spread over %s", Time(s.Ramp))
	add(s.Waves > 0, "starts in %d waves", s.Waves)
	add(s.WaveEvery > 0, "a wave every %s", Time(s.WaveEvery))
	add(s.Lead > 0, "nothing measured for the first %s", Time(s.Lead))
	add(s.Pairs > 1, "by one of %d pairs", s.Pairs)
	add(s.MissingPairs > 0, "%s may return no result", quantity.Count(s.MissingPairs, "pair"))
	add(s.MaxHops > 0, "up to %d hops", s.MaxHops)
	return strings.Join(parts, ", ")
}

// datagramText is the part of a spec that is about UDP.
func datagramText(s measurement.Spec) []string {
	if s.Kind != measurement.UDP && s.Kind != measurement.PPS {
		return nil
	}
	parts := []string{"as fast as the sender can"}
	if s.RateBitsPerSecond > 0 {
		parts[0] = "at " + Value(s.RateBitsPerSecond, measurement.BitsPerSecond)
	}
	if s.LossBound > 0 {
		parts = append(parts, "highest rate with at most "+Percent(s.LossBound)+" lost")
	}
	if s.PacketBytes > 0 {
		parts = append(parts, fmt.Sprintf("%d B packets", s.PacketBytes))
	}
	for _, o := range []struct {
		name     string
		position measurement.Switch
	}{{"GSO", s.GSO}, {"GRO", s.GRO}} {
		if o.position != measurement.Auto {
			parts = append(parts, o.name+" "+string(o.position))
		}
	}
	return parts
}
