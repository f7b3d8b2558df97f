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
	// A data connection that moves fewer than leastBytes in a window of
	// stallTimeout has come to a stop, or is made to trickle so that it holds the
	// session. 200 B/s is little enough for 40 sessions that share 64 kbit/s.
	stallTimeout = 10 * time.Second
	leastBytes   = 2000
	// loginTimeout is how long a client may take to log in, a person at a prompt
	// included, whatever it sends meanwhile.
	loginTimeout = 20 * time.Second
	// commandTimeout is how long the rest of a command may take to arrive.
	commandTimeout = 10 * time.Second
	// endingTimeout is how long after its transfer a session of a server that ends may
	// take for its last reply.
	endingTimeout = time.Second
	// quietTimeout is how long a session may move no data, whatever it asks.
	quietTimeout = 60 * time.Second
	// maxReplyBytes bounds the lines of a reply together.
	maxReplyBytes = 64 << 10
	// chunkBytes is how much one call reads or writes at most.
	chunkBytes = 256 << 10
	// MaxSegments of one file, each a session and a data connection.
	MaxSegments = 256
	// MaxFileBytes bounds a file, 10 TB.
	MaxFileBytes = 10_000_000_000_000
)
