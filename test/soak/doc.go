// Package soak compares one server, with few processes, descriptors and little
// memory to spend, with clients that mean it well and badly, for as long as
// asked: make soak SOAK=1h. A plain go test smokes it for a few seconds.
package soak
