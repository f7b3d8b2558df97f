package session

import (
	"fmt"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/printable"
)

// ProgressInterval is how often a running test shows a sign of life.
const ProgressInterval = 200 * time.Millisecond

// connectAtOnce bounds the flows that are being connected at the same time:
// so many, or this part of very many, which a long path would delay too much.
const (
	ConnectAtOnce     = 16
	ConnectAtOncePart = 64
)

// ThroughputProgress returns what reports, at each call, how fast bytes moved
// at this end since the call before: a sign of life, not a result.
func ThroughputProgress(start time.Time, moved func() int64, report func(measurement.Progress)) func() {
	last, lastAt := int64(0), start
	return func() {
		sum, now := moved(), time.Now()
		if dt := now.Sub(lastAt).Seconds(); dt > 0.01 {
			report(measurement.Progress{
				Elapsed:    measurement.SecondsOf(now.Sub(start)),
				Throughput: float64(sum-last) * 8 / dt,
			})
			last, lastAt = sum, now
		}
	}
}

// freshFor is how long a round trip is told of: who watches sees none that nobody answers.
const freshFor = time.Second

// RTTProgress returns what reports, at each call, the newest round trip: a sign of life, not a
// result. Take returns it and forgets it; 0 is that none has ended since.
func RTTProgress(start time.Time, take func() time.Duration, report func(measurement.Progress)) func() {
	rtt, at := time.Duration(0), start
	return func() {
		now := time.Now()
		if newest := take(); newest > 0 {
			rtt, at = newest, now
		} else if now.Sub(at) >= freshFor {
			rtt = 0
		}
		report(measurement.Progress{Elapsed: measurement.SecondsOf(now.Sub(start)), RTT: measurement.SecondsOf(rtt)})
	}
}

const (
	// mostFacts bounds the facts of an outcome, mostEffective its effective settings,
	// and longestEffective each of them in runes: thousands of flows may all say
	// something else, and what each says is compared with what others said.
	mostFacts        = 200
	mostEffective    = 200
	longestEffective = 200
)

// AppendNew adds facts, each once: flows share most of them.
func AppendNew(list []string, more ...string) []string {
	for _, m := range more {
		if len(list) < mostFacts && !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	return list
}

// AddEffective adds what was effective for one flow of a test. Where flows
// differ, as buffers do that grow, the outcome has the range.
func AddEffective(out *measurement.Outcome, ends ...map[string]string) {
	for _, effective := range ends {
		for k, v := range effective {
			old, ok := out.Effective[k]
			if ok && old != v {
				v = printable.Line(rangeOf(old, v), longestEffective)
			}
			if ok || len(out.Effective) < mostEffective {
				out.Effective[k] = v
			}
		}
	}
}

// rangeOf merges the values that flows report for one setting: "a..b" for
// numbers, a list for words.
func rangeOf(old, v string) string {
	lowText, highText, isRange := strings.Cut(old, "..")
	if !isRange {
		highText = lowText
	}
	low, err1 := strconv.ParseInt(lowText, 10, 64)
	high, err2 := strconv.ParseInt(highText, 10, 64)
	n, err3 := strconv.ParseInt(v, 10, 64)
	if err1 == nil && err2 == nil && err3 == nil {
		low, high = min(low, n), max(high, n)
		if low == high {
			return v
		}
		return strconv.FormatInt(low, 10) + ".." + strconv.FormatInt(high, 10)
	}
	if strings.Contains(old, v) {
		return old
	}
	return old + ", " + v
}

// hostOf is an address without its port.
func hostOf(hostPort string) string {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		return hostPort
	}
	return host
}

// SetBytes sets an effective setting that is known.
func SetBytes(e map[string]string, key string, v int) {
	if v > 0 {
		e[key] = fmt.Sprint(v)
	}
}

// SmallerBuffer is the fact that the kernel gave a socket a smaller buffer than was
// asked for, both in bytes, if it did; limit is its bound (sysctl(8)). Linux doubles
// what is asked, for its own overhead (socket(7)); of other systems nothing is said.
func SmallerBuffer(which, limit string, asked int64, got int) []string {
	if runtime.GOOS != "linux" || got <= 0 || int64(got/2) >= asked {
		return nil
	}
	return []string{fmt.Sprintf("the %s buffer is %d bytes although %d were asked for: %s is the most that one may ask for", which, got/2, asked, limit)}
}
