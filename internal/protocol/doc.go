// Package protocol is hopbench's native wire protocol, version 1, as
// docs/protocol.md specifies it: the preface that tells it from other
// protocols on the same port, one frame format for everything, the mutual
// proof of a shared token, and the messages that frames carry. It works on any
// io.Reader and io.Writer, keeps no state and sets no deadline; whoever owns
// the connection does.
package protocol
