package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// pair is one run of each side, one right after the other.
type pair struct {
	Own      values `json:"hopbench"`
	Peer     values `json:"peer"`
	OwnFirst bool   `json:"hopbench_first"`
}

// result is a test against one variant of a peer.
type result struct {
	Test  string `json:"test"`
	Peer  string `json:"peer"`
	Pairs []pair `json:"pairs"`
	// Errors are why pairs are missing; they end the comparison when there are
	// more than a few.
	Errors  []string `json:"errors,omitempty"`
	variant *variant
}

// maxErrors of a peer in one test; after them it is given up.
const maxErrors = 2

// runTest compares a test with all its peers. Its error is only that ctx ended.
func runTest(ctx context.Context, t test, pairs int, p *progress) ([]result, error) {
	results := make([]result, len(t.variants))
	for i, v := range t.variants {
		r := result{Test: t.name, Peer: v.label(), variant: v}
		for n := 0; n < pairs && len(r.Errors) <= maxErrors; n++ {
			one, err := runPair(ctx, t, v, n%2 == 0, p)
			if ctx.Err() != nil {
				return results[:i], ctx.Err()
			}
			if err != nil {
				r.Errors = append(r.Errors, err.Error())
				continue
			}
			r.Pairs = append(r.Pairs, one)
		}
		p.skip(2 * (pairs - len(r.Pairs) - len(r.Errors)))
		results[i] = r
	}
	return results, nil
}

func runPair(ctx context.Context, t test, v *variant, ownFirst bool, p *progress) (pair, error) {
	one := pair{OwnFirst: ownFirst}
	var ownErr, peerErr error
	own := func() { p.step(t.name, "hopbench"); one.Own, ownErr = t.own(ctx) }
	peer := func() { p.step(t.name, v.label()); one.Peer, peerErr = t.peer(v)(ctx) }
	if ownFirst {
		own()
		peer()
	} else {
		peer()
		own()
	}
	return one, errors.Join(ownErr, peerErr)
}

// progress says on a terminal what runs and how much time is left.
type progress struct {
	w       io.Writer
	runs    int
	done    int
	started time.Time
	each    time.Duration // expected, until some have been measured
}

func newProgress(w io.Writer, tests []test, o options) *progress {
	p := &progress{w: w, started: time.Now(), each: o.duration + 500*time.Millisecond}
	for _, t := range tests {
		p.runs += 2 * o.pairs * len(t.variants)
	}
	return p
}

func (p *progress) step(test, who string) {
	each := p.each
	if p.done > 0 {
		each = time.Since(p.started) / time.Duration(p.done)
	}
	left := time.Duration(p.runs-p.done) * each
	fmt.Fprintf(p.w, "\r\033[K%d/%d  %s left  %s: %s", p.done+1, p.runs, left.Round(time.Second), test, who)
	p.done++
}

// skip drops runs that will not happen.
func (p *progress) skip(runs int) { p.runs -= max(runs, 0) }

func (p *progress) clear() { fmt.Fprint(p.w, "\r\033[K") }
