//go:build !linux && !windows

package trace

import "context"

func open(ctx context.Context, p plan) (prober, error) { return openEchoes(ctx, p) }
