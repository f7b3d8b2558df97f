package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
)

// CanaryRequest is a small HTTP request to a server of an agent, which a known signature
// of an inspecting firewall catches.
type CanaryRequest struct {
	Target netip.AddrPort `json:"target"`
	// Source, when valid, is the local address to send from.
	Source    netip.Addr `json:"source,omitzero"`
	UserAgent string     `json:"user_agent"`
	// Timeout is after how long no answer is silence.
	Timeout measurement.Seconds `json:"timeout_seconds"`
}

// Canary is what became of the request.
type Canary struct {
	Answer CanaryAnswer `json:"answer"`
	// Evidence is what was seen.
	Evidence string `json:"evidence"`
}

// CanaryAnswer is what became of a canary request.
type CanaryAnswer string

// The answers.
const (
	CanaryPassed CanaryAnswer = "passed" // the server answered
	CanaryReset  CanaryAnswer = "reset"  // the connection was ended, or somebody else answered
	CanarySilent CanaryAnswer = "silent" // no answer came
)

const (
	maxCanaryTimeout = time.Minute
	// maxCanary bounds the headers of the answer.
	maxCanary = 4 << 10
	// maxUserAgent bounds that of the request.
	maxUserAgent = 200
)

// canary sends the request on a connection of its own. An error is that the connection
// could not be made, which says nothing of the request.
func (s *server) canary(ctx context.Context, r CanaryRequest) (*Canary, error) {
	op := fmt.Sprintf("canary request to %s", r.Target)
	timeout := r.Timeout.Duration()
	if !r.Target.IsValid() || timeout <= 0 || timeout > maxCanaryTimeout || len(r.UserAgent) > maxUserAgent {
		return nil, &probe.Error{Op: op, Reason: probe.Failed, Err: fmt.Errorf(
			"a canary request needs a target, a timeout of at most %v, and a user agent of at most %d bytes", maxCanaryTimeout, maxUserAgent)}
	}
	if s.opts.Lease > 0 {
		if err := s.permitTarget(op, r.Target.Addr(), true); err != nil {
			return nil, err
		}
	}
	dialer := net.Dialer{Timeout: timeout}
	if r.Source.IsValid() {
		dialer.LocalAddr = &net.TCPAddr{IP: r.Source.AsSlice(), Zone: r.Source.Zone()}
	}
	conn, err := dialer.DialContext(ctx, "tcp", r.Target.String())
	if err != nil {
		return nil, &probe.Error{Op: op, Reason: probe.ReasonOf(err), Err: err}
	}
	defer conn.Close()
	// Whoever answers may do so before the request is written, which an http.Transport takes
	// for a fault of its connection.
	_ = conn.SetDeadline(time.Now().Add(timeout))
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	// The interface means nothing to the other end (RFC 4007, section 6), and is no part of a URL.
	host := netip.AddrPortFrom(r.Target.Addr().WithZone(""), r.Target.Port())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host.String()+"/", http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", r.UserAgent)
	request.Close = true
	var response *http.Response
	if err = request.Write(conn); err == nil {
		response, err = http.ReadResponse(bufio.NewReader(io.LimitReader(conn, maxCanary)), request)
	}
	switch {
	case ctx.Err() != nil:
		return nil, &probe.Error{Op: op, Reason: probe.Cancelled, Err: context.Cause(ctx)}
	case err == nil:
		defer response.Body.Close()
		if response.StatusCode == http.StatusNoContent && response.Header.Get("Server") == probe.HTTPServer {
			return &Canary{CanaryPassed, "the server answered " + response.Status}, nil
		}
		return &Canary{CanaryReset, "somebody else answered " + response.Status}, nil
	case probe.ReasonOf(err) == probe.TimedOut:
		return &Canary{CanarySilent, fmt.Sprintf("no answer in %v", timeout)}, nil
	case probe.ReasonOf(err) == probe.Vanished || errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &Canary{CanaryReset, "the connection was ended: " + err.Error()}, nil
	}
	return nil, &probe.Error{Op: op, Reason: probe.ReasonOf(err), Err: err}
}
