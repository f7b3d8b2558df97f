// Package measurement is the vocabulary of hopbench: what a test asks for
// (Spec), what came back (Outcome), the Trial that a report counts, and the
// metrics with their units. Every other package speaks in these words, the
// wire and the stored files carry them as JSON, and nothing here depends on
// anything but the standard library.
//
// Units are base units inside and in JSON, and every name says its unit:
// seconds, bits per second, bytes, fractions (0 to 1). Scaling to Gbit/s or
// milliseconds happens only where a person reads.
package measurement
