// Package chaintest gives the tests of ping and trace a real network: a chain
// of routers between a source and a destination, each a network namespace,
// made with or without root.
//
//	source ── r1 ── r2 ── … ── destination
//	       0     1     2
//
// Link i is 10.77.i.0/24 and fd77:i::/64; its end towards the source has host
// number 1, the other end 2. Only tests import it.
package chaintest
