// Package linktest makes throw-away network namespaces with a link emulator between
// them, for the tests and the benchmark of package linkem. It needs Linux and
// either root or unprivileged user namespaces.
package linktest
