package agent

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/protocol"
)

// The operations of a request.
const (
	opHello    = "hello"
	opListen   = "listen"
	opUnlisten = "unlisten"
	opRun      = "run"
	opProve    = "prove"
	opCounters = "counters"
	opCanary   = "canary"
	opStood    = "stood"
)

// request is the payload of a TypeAgentRequest frame. ID is the coordinator's
// number for it, which progress, the reply and a cancel repeat.
type request struct {
	ID     uint64         `json:"id"`
	Op     string         `json:"op"`
	Hello  *helloRequest  `json:"hello,omitempty"`
	Listen *listenRequest `json:"listen,omitempty"`
	// Unlisten is an address that a listen was answered with.
	Unlisten *netip.AddrPort `json:"unlisten,omitempty"`
	// Run is the test of a run, and of a prove what it would connect with.
	Run *probe.Request `json:"run,omitempty"`
	// Hold makes a run wait, once prepared, for the coordinator's start.
	Hold bool `json:"hold,omitempty"`
	// Interface is that of counters.
	Interface string         `json:"interface,omitempty"`
	Canary    *CanaryRequest `json:"canary,omitempty"`
	// Past is how long ago a standstill matters that is asked for.
	Past time.Duration `json:"past_nanoseconds,omitempty"`
	// Addresses are those of which it is asked whether the agent's host still has them.
	Addresses []netip.Addr `json:"addresses,omitempty"`
}

// helloRequest says who asks.
type helloRequest struct {
	Protocol int    `json:"protocol"`
	Version  string `json:"version"`
	// Coordinator names its process, for who else would have the agent's host.
	Coordinator string `json:"coordinator,omitempty"`
}

type listenRequest struct {
	Address netip.AddrPort `json:"address"`
	Token   string         `json:"token,omitempty"`
	// IPerf3Open serves iperf3's clients too, which cannot prove the token.
	IPerf3Open bool `json:"iperf3_open,omitempty"`
}

// about is the payload of TypeAgentCancel and TypeAgentPrepared: the request they are
// about.
type about struct {
	ID uint64 `json:"id"`
}

// startAt is the payload of TypeAgentStart.
type startAt struct {
	ID uint64 `json:"id"`
	// At is when a held run starts, by the agent's clock; 0 is at once.
	At time.Duration `json:"at_nanoseconds,omitempty"`
}

// stamps is the payload of TypeAgentClock: the coordinator's stamp, which the agent
// sends back with its own. It keeps up a lease, too.
type stamps struct {
	Sent time.Duration `json:"sent_nanoseconds"`
	At   time.Duration `json:"at_nanoseconds,omitempty"`
}

// progress is the payload of TypeAgentProgress.
type progress struct {
	ID       uint64               `json:"id"`
	Progress measurement.Progress `json:"progress"`
}

// reply is the payload of TypeAgentReply: the one end of a request.
type reply struct {
	ID      uint64               `json:"id"`
	Error   *replyError          `json:"error,omitempty"`
	Outcome *measurement.Outcome `json:"outcome,omitempty"`
	// Stamp is when the test of a run started, or counters were read, by the agent's
	// clock.
	Stamp    time.Duration   `json:"stamp_nanoseconds,omitempty"`
	Hello    *Hello          `json:"hello,omitempty"`
	Listen   *netip.AddrPort `json:"listen,omitempty"`
	Proof    *probe.Proof    `json:"proof,omitempty"`
	Counters *Counters       `json:"counters,omitempty"`
	Canary   *Canary         `json:"canary,omitempty"`
	// Stood is for how long the agent did not run at most, 0 where it did.
	Stood time.Duration `json:"stood_nanoseconds,omitempty"`
	// Lost are addresses asked for that the agent's host had, and nothing reaches any more.
	Lost []hostinfo.LostAddress `json:"lost,omitempty"`
}

// replyError carries a *probe.Error across the connection.
type replyError struct {
	Op      string       `json:"op"`
	Reason  probe.Reason `json:"reason"`
	Message string       `json:"message"`
}

// Hello is what an agent says of itself.
type Hello struct {
	// Protocol is its protocol.AgentVersion, Version that of its hopbench.
	Protocol int    `json:"protocol"`
	Version  string `json:"version"`
	Host     string `json:"host"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
	// HostID tells its machine, as it was booted last, from others, NetworkID its
	// network namespace; empty where the system does not say.
	HostID     string      `json:"host_id,omitempty"`
	NetworkID  string      `json:"network_id,omitempty"`
	Interfaces []Interface `json:"interfaces"`
	// Environment is its machine and the settings that bear on what it measures.
	Environment map[string]string `json:"environment"`
	// Lease is how long it goes on without hearing of its coordinator; 0 is as long
	// as the control connection lives.
	Lease measurement.Seconds `json:"lease_seconds,omitempty"`
	// Its own limits of one test, 0 where it has none.
	MaxRateBitsPerSecond float64             `json:"max_rate_bits_per_second,omitempty"`
	MaxDuration          measurement.Seconds `json:"max_duration_seconds,omitempty"`
	MaxFlows             int                 `json:"max_flows,omitempty"`
	// AllowTargets are where it sends load without a proof of the token.
	AllowTargets []netip.Prefix `json:"allow_targets,omitempty"`
}

// Interface is one of an agent's machine that is up.
type Interface struct {
	Name      string       `json:"name"`
	MTUBytes  int          `json:"mtu_bytes"`
	Addresses []netip.Addr `json:"addresses"`
}

const (
	// maxRequest bounds what a coordinator may send in one frame.
	maxRequest = 64 << 10
	// maxReply bounds what an agent answers: an outcome holds the series of
	// every flow.
	maxReply = protocol.MaxAgentReply
	// maxTestFlows is what the largest test takes of a server: its flows each
	// way, and some for control and latency.
	maxTestFlows = 2*probe.MaxFlows + 16
	// maxRunning bounds the requests in progress at the same time.
	maxRunning = 64
)

// parseRequest reads the payload of a TypeAgentRequest frame.
func parseRequest(payload []byte) (request, error) {
	var r request
	err := parse("request", payload, &r)
	return r, err
}

// parse reads the payload of a frame of the coordinator.
func parse(what string, payload []byte, v any) error {
	if err := json.Unmarshal(payload, v); err != nil {
		return fmt.Errorf("%w: %s: %w", protocol.ErrMalformed, what, err)
	}
	return nil
}
