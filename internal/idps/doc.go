// Package idps inspects the payloads of the packets that pass a point of a
// path against rules in Suricata's format, of which it reads a stated subset
// (docs/hops.md). It knows frames as bytes: it reads Ethernet frames with a
// virtio-net header in front, as a TAP device hands them over, and says of
// each whether it goes on. It needs no kernel and starts nothing.
//
// # What is inspected
//
// TCP streams are put in order ([Inspector] keeps a bounded amount of what
// came early) and searched as streams, so it does not matter where segments
// begin and end, nor that a super-packet holds many of them. UDP datagrams are
// searched one by one. Fragments, and all that is neither TCP nor UDP over
// IPv4 or IPv6, pass and are counted.
//
// # How
//
// One automaton (Aho and Corasick, CACM 18(6), 1975), as a table, runs over
// every byte once and carries its state from one segment to the next. It looks
// for the longest content of each rule. Where it finds one, that rule alone is
// compared with the bytes around: at most reach bytes before and behind.
//
// The libraries that were weighed search whole strings and give no access to
// the automaton's state, so that the bytes around each boundary would have to
// be searched twice; and general reassemblers wait for a page of memory or a
// timer, where a frame in hand wants a verdict.
package idps
