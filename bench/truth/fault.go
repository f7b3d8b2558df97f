package main

import (
	"context"
	"fmt"

	"github.com/hopbench/hopbench/internal/experiment"
)

// nftables puts rules into the forwarding of a path's last router, for one trial.
// Each is one rule of a chain that sees every forwarded packet of a family of addresses,
// inet for both.
func (b *bed) nftables(ctx context.Context, path, family string, rules ...string) (undo func() error, err error) {
	node, err := b.node(path)
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("add table %[1]s truth; add chain %[1]s truth forward { type filter hook forward priority 10; };", family)
	for _, rule := range rules {
		text += fmt.Sprintf(" add rule %s truth forward %s;", family, rule)
	}
	if _, err := b.exec(ctx, node, "nft", text); err != nil {
		return nil, err
	}
	return func() error {
		_, err := b.exec(context.WithoutCancel(ctx), node, "nft", "delete table "+family+" truth")
		return err
	}, nil
}

// rules are a planter of rules in every trial.
func rules(each ...string) planter {
	return func(ctx context.Context, b *bed, t experiment.PlannedTrial) (func() error, error) {
		return b.nftables(ctx, t.Path, "inet", each...)
	}
}

// on plants in those trials of one path that when chooses.
func on(path string, when func(block int) bool, plant planter) planter {
	return func(ctx context.Context, b *bed, t experiment.PlannedTrial) (func() error, error) {
		if t.Path != path || !when(t.Block) {
			return nil, nil
		}
		return plant(ctx, b, t)
	}
}

// resetAfter are rules that reset every connection once so many bytes have gone
// through the router.
func resetAfter(bytes int) string {
	return fmt.Sprintf("meta l4proto tcp quota over %d bytes reject with tcp reset", bytes)
}

// slowedTo are rules that drop what exceeds a rate in bytes a second.
func slowedTo(bytesPerSecond int) string {
	return fmt.Sprintf("limit rate over %d bytes/second burst 20000 bytes drop", bytesPerSecond)
}
