//go:build !linux && !windows

package trace

import (
	"context"
	"fmt"
	"runtime"
)

// open needs the socket error queue, which only Linux has.
func open(context.Context, plan) (prober, error) {
	return nil, fmt.Errorf("trace needs Linux: %s has no socket error queue (IP_RECVERR); use its own traceroute or tracert", runtime.GOOS)
}
