// Package ftp is both ends of a file transfer over FTP (RFC 959, with EPSV of
// RFC 2428 and SIZE and REST of RFC 3659), each on a library of its own, so
// that what is measured is what stock clients and servers do: a client that
// fetches one file in one or several segments, or stores one, and counts and
// digests every byte on the way; and a server without a file system, whose files
// are made as they are read.
//
// Both libraries are reached only from here, and neither is given a bare
// connection: what they open is bounded in time, in length and in whom it may
// reach, and is closed by its owner whatever the library does.
package ftp

import "time"

const (
	// dialTimeout bounds the making of one connection.
	dialTimeout = 5 * time.Second
	// replyTimeout bounds the wait for the reply to a command.
	replyTimeout = 10 * time.Second
	// stallTimeout is how long a data connection may move nothing.
	stallTimeout = 10 * time.Second
	// idleTimeout is how long a session may neither ask nor transfer anything.
	idleTimeout = 30 * time.Second
	// maxReplyBytes bounds the lines of a reply together.
	maxReplyBytes = 64 << 10
	// chunkBytes is how much one call reads or writes at most.
	chunkBytes = 256 << 10
	// MaxSegments of one file, each a session and a data connection.
	MaxSegments = 256
	// MaxFileBytes bounds a file, 10 TB.
	MaxFileBytes = 10_000_000_000_000
)
