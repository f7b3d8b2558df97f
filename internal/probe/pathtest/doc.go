// Package pathtest holds the tests of probes over UDP that need a path with
// faults: small links, silent routers, lost packets. It has nothing but tests.
package pathtest
