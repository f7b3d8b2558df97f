package measurement

import (
	"math"
	"time"
)

// Seconds is a length of time as JSON carries it: a plain number of seconds.
type Seconds float64

// SecondsOf converts a duration.
func SecondsOf(d time.Duration) Seconds { return Seconds(d.Seconds()) }

// Duration converts back; the precision is a nanosecond.
func (s Seconds) Duration() time.Duration {
	return time.Duration(math.Round(float64(s) * float64(time.Second)))
}

// DefaultPort is where servers and agents listen: iperf3's port, so that
// firewalls that are open for it serve hopbench too.
const DefaultPort = 5201
