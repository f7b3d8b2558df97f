package lab

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/hopbench/hopbench/internal/idps"
)

// The processes of a lab, and programs that join a published one, talk in
// frames over unix stream sockets: four bytes of length, big endian, then that
// many bytes of JSON, one message. Descriptors travel with the first byte.

// maxFrame bounds a message in bytes: a topology of some ten thousand links.
const maxFrame = 8 << 20

// The operations of messages.
const (
	opBuild      = "build"       // caller → supervisor: Topology; answered by ready or an error
	opControl    = "control"     // supervisor → caller: Node, with its control socket
	opReady      = "ready"       // supervisor → caller: the lab stands
	opDied       = "died"        // supervisor → caller: Death says who and how
	opExec       = "exec"        // → Command, with 3 descriptors; answered by opReply with Exit
	opSignal     = "signal"      // → Signal for the command that ID names; not answered
	opProbe      = "probe"       // → try features in Node; answered by opReply with Environment, "" for each that works
	opOuterPorts = "outer-ports" // → look at what a tunnel sends in Node; answered by opReply with Ports
	opNodes      = "nodes"       // → answered by opReply with Nodes
	opMode       = "mode"        // → Mode for the idps that is Node, also by a cable's process; answered by opReply
	opAlerts     = "alerts"      // → of the idps that is Node, likewise; answered by opReply with Alerts
	opPaths      = "paths"       // → answered by opReply with Switched
	opReply      = "reply"       // the answer to ID
	opScale      = "scale"       // → Scale; answered by opReply
	opWatch      = "watch"       // → Watch; answered by opReply
	opHealth     = "health"      // health check → supervisor → caller: Health
	opCounters   = "counters"    // → of Nodes alone if there are any; answered by opReply with Counters, by a cable's process with Cable
	opSwitch     = "switch"      // → bring the state of Path about; answered by opReply
)

// message is any of them; fields that an operation does not use are absent.
type message struct {
	Op string `json:"op"`
	ID uint64 `json:"id,omitempty"`

	Error string `json:"error,omitempty"`

	Build       *build            `json:"build,omitempty"`
	Node        string            `json:"node,omitempty"`
	Environment map[string]string `json:"environment,omitempty"`
	Facts       []string          `json:"facts,omitempty"`
	Exec        *execRequest      `json:"exec,omitempty"`
	Signal      int               `json:"signal,omitempty"`
	Exit        *exit             `json:"exit,omitempty"`
	Counters    *Counters         `json:"counters,omitempty"`
	Cable       *CableCounters    `json:"cable,omitempty"`
	Nodes       []string          `json:"nodes,omitempty"`
	Outer       *OuterPath        `json:"outer,omitempty"`
	Ports       []uint16          `json:"ports,omitempty"`
	Scale       *scale            `json:"scale,omitempty"`
	Watch       *watch            `json:"watch,omitempty"`
	Health      *health           `json:"health,omitempty"`
	Death       *Death            `json:"death,omitempty"`

	Mode   idps.Mode          `json:"mode,omitempty"`
	Alerts []idps.AlertRecord `json:"alerts,omitempty"`
	Path   string             `json:"path,omitempty"`

	Switched []SwitchedPath `json:"switched,omitempty"`
}

// build is what the supervisor needs to know.
type build struct {
	Topology Topology `json:"topology"`
	// Executable is the program of agents and cables.
	Executable  string   `json:"executable"`
	NodeCommand []string `json:"node_command,omitempty"`
}

type execRequest struct {
	Argv []string `json:"argv"`
	Env  []string `json:"env"`
	Dir  string   `json:"dir"`
}

// exit is how a command ended: Code, or by Signal when that is not 0.
type exit struct {
	Code   int `json:"code"`
	Signal int `json:"signal,omitempty"`
}

var errFrameTooLong = errors.New("message is too long")

// encodeFrame is m as it travels.
func encodeFrame(m message) ([]byte, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if len(body) > maxFrame {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", errFrameTooLong, len(body), maxFrame)
	}
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body))), body...), nil
}

// frameLength checks the first four bytes of a frame.
func frameLength(header [4]byte) (int, error) {
	n := binary.BigEndian.Uint32(header[:])
	if n > maxFrame {
		return 0, fmt.Errorf("%w: %d bytes announced, at most %d", errFrameTooLong, n, maxFrame)
	}
	return int(n), nil
}

// decodeBody reads the n bytes after a header. It takes memory as bytes
// arrive, not as they are announced.
func decodeBody(r io.Reader, n int) (message, error) {
	body, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err != nil {
		return message{}, err
	}
	if len(body) < n {
		return message{}, io.ErrUnexpectedEOF
	}
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		return message{}, fmt.Errorf("message of %d bytes: %w", n, err)
	}
	return m, nil
}
