package reach

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
)

const (
	// applicationProtocol is what both ends say in TLS (ALPN, RFC 7301): ends of
	// different versions of the protocol do not understand each other.
	applicationProtocol = "hopbench-agent/1"
	// bindingLabel and bindingBytes are those of tls-exporter, the channel binding of
	// RFC 9266.
	bindingLabel = "EXPORTER-Channel-Binding"
	bindingBytes = 32
	// proofTime is how long an end may take until both have proved the token.
	proofTime = 10 * time.Second
)

// dialTLS connects to an agent that listens, and proves the token with it.
func dialTLS(ctx context.Context, r inventory.Reach, token string) (io.ReadWriteCloser, error) {
	where := hostPort(r)
	if token == "" {
		return nil, fmt.Errorf("an agent at %s takes orders only from who proves its token: name the file with token_file", where)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, proofTime, fmt.Errorf("no answer from %s in %v", where, proofTime))
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", where)
	if err != nil {
		return nil, fmt.Errorf("%w; is this running there: hopbench agent --listen --token-file FILE", why(ctx, err))
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	conn := tls.Client(raw, &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{applicationProtocol},
		// Who is there is told by the token, bound to this very channel, and by
		// nothing else.
		InsecureSkipVerify: true,
	})
	binding, err := handshake(ctx, conn)
	if err == nil {
		err = protocol.ProveToAgent(conn, token, binding)
	}
	if !stop() || err != nil {
		_ = raw.Close()
		return nil, explainTLS(where, why(ctx, err))
	}
	return conn, nil
}

// why is the reason of an error: that a context ended, if it did.
func why(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// handshake begins a channel, and gives what its two ends know and nobody else.
func handshake(ctx context.Context, conn *tls.Conn) (binding []byte, err error) {
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	state := conn.ConnectionState()
	binding, err = state.ExportKeyingMaterial(bindingLabel, nil, bindingBytes)
	if err != nil {
		return nil, fmt.Errorf("bind the token to the channel: %w", err)
	}
	return binding, nil
}

// explainTLS says what to do about an agent that was not reached.
func explainTLS(where string, err error) error {
	remote, refused := errors.AsType[*protocol.RemoteError](err)
	_, otherProtocol := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case refused && probe.Reason(remote.Reason) == probe.Unauthorized:
		return fmt.Errorf("the agent at %s does not take the token of token_file: give both ends the same file, unless somebody is in between", where)
	case refused:
		return fmt.Errorf("the agent at %s says: %s", where, remote.Message)
	case errors.Is(err, protocol.ErrUnauthorized):
		return fmt.Errorf("what answers at %s does not have the token of token_file: it is another agent, or somebody in between", where)
	case otherProtocol:
		return fmt.Errorf("what answers at %s is no hopbench agent (%w): its port is that of hopbench agent --listen, not of hopbench serve", where, err)
	case strings.Contains(err.Error(), noApplicationProtocol):
		return fmt.Errorf("what answers at %s does not speak %s: use the same hopbench at both ends", where, applicationProtocol)
	}
	return fmt.Errorf("prove the token with %s: %w", where, err)
}

// noApplicationProtocol is what crypto/tls calls the alert of an end that speaks other
// protocols (RFC 7301); its error has no type that others know.
const noApplicationProtocol = "no application protocol"
