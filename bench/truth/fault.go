package main

import (
	"context"
	"fmt"

	"github.com/hopbench/hopbench/internal/experiment"
)

// nftables puts rules into the forwarding of a path's last router, for one trial.
// Each is one rule of a chain that sees every forwarded packet.
func (b *bed) nftables(ctx context.Context, path string, rules ...string) (undo func() error, err error) {
	node, err := b.node(path)
	if err != nil {
		return nil, err
	}
	text := "add table inet truth; add chain inet truth forward { type filter hook forward priority 10; };"
	for _, rule := range rules {
		text += " add rule inet truth forward " + rule + ";"
	}
	if _, err := b.exec(ctx, node, "nft", text); err != nil {
		return nil, err
	}
	return func() error {
		_, err := b.exec(context.WithoutCancel(ctx), node, "nft", "delete table inet truth")
		return err
	}, nil
}

// on is a planter of rules in the trials of one path that when chooses.
func on(path string, when func(block int) bool, rules ...string) planter {
	return func(ctx context.Context, b *bed, t experiment.PlannedTrial) (func() error, error) {
		if t.Path != path || !when(t.Block) {
			return nil, nil
		}
		return b.nftables(ctx, path, rules...)
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
