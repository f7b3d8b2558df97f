// Package message is what the processes of a lab, and programs that join a
// published one, say to each other over unix stream sockets.
package message

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Messages travel in frames: four bytes of length, big endian, then that many
// bytes of JSON. Descriptors travel with the first byte.

// maxFrame bounds a message in bytes: a topology of some ten thousand links, with dozens of
// rule files (idps.MaxFileBytes).
const maxFrame = 256 << 20

// Verb says what a message is about, and so of what type its body is.
type Verb string

// The verbs. A request is answered by a Reply with its ID, whose body is of the
// type behind the arrow.
const (
	Build      Verb = "build"       // caller → supervisor: BuildRequest; answered by Ready
	Ready      Verb = "ready"       // supervisor → caller: State; the lab stands, or Error says why not
	Control    Verb = "control"     // supervisor → caller: name of a node, with its control socket
	Died       Verb = "died"        // supervisor → caller: Death
	Health     Verb = "health"      // health check → supervisor → caller: HealthReport
	Reply      Verb = "reply"       // the answer to the request of that ID
	Exec       Verb = "exec"        // Command, with 3 descriptors → Exit
	Signal     Verb = "signal"      // number of a signal for the command of that ID; not answered
	Probe      Verb = "probe"       // name of a node → Features
	OuterPorts Verb = "outer-ports" // OuterPortsRequest → []uint16
	Nodes      Verb = "nodes"       // → []string
	Mode       Verb = "mode"        // ModeRequest; also to a link's process
	Alerts     Verb = "alerts"      // name of an idps's node → []idps.AlertRecord; likewise
	Paths      Verb = "paths"       // → []SwitchedPath
	Scale      Verb = "scale"       // ScaleRequest
	Forget     Verb = "forget"      // names of nodes
	Watch      Verb = "watch"       // WatchRequest
	Count      Verb = "counters"    // topology.Selection → Counters; a link's process answers with LinkCounters
	Switch     Verb = "switch"      // name of the path whose state to bring about
)

// Message is one of them.
type Message struct {
	Verb  Verb            `json:"op"`
	ID    uint64          `json:"id,omitempty"`
	Error string          `json:"error,omitempty"`
	Body  json.RawMessage `json:"body,omitempty"`
}

// New is a message with a body, nil for none.
func New(verb Verb, id uint64, body any) (Message, error) {
	m := Message{Verb: verb, ID: id}
	if body == nil {
		return m, nil
	}
	var err error
	m.Body, err = json.Marshal(body)
	return m, err
}

// Body decodes the body of a message, which may be absent.
func Body[T any](m Message) (T, error) {
	var body T
	if len(m.Body) == 0 {
		return body, nil
	}
	if err := json.Unmarshal(m.Body, &body); err != nil {
		return body, fmt.Errorf("read the body of %q: %w", m.Verb, err)
	}
	return body, nil
}

// Handler answers a request with a body.
type Handler func(Message) (any, error)

// Handle is a handler of requests with a body of type In.
func Handle[In, Out any](f func(In) (Out, error)) Handler {
	return func(m Message) (any, error) {
		in, err := Body[In](m)
		if err != nil {
			return nil, err
		}
		return f(in)
	}
}

// Do is a handler of requests that are answered without a body.
func Do[In any](f func(In) error) Handler {
	return Handle(func(in In) (any, error) { return nil, f(in) })
}

var errFrameTooLong = errors.New("message is too long")

// encodeFrame is m as it travels.
func encodeFrame(m Message) ([]byte, error) {
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
func decodeBody(r io.Reader, n int) (Message, error) {
	body, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err != nil {
		return Message{}, err
	}
	if len(body) < n {
		return Message{}, io.ErrUnexpectedEOF
	}
	var m Message
	if err := json.Unmarshal(body, &m); err != nil {
		return Message{}, fmt.Errorf("message of %d bytes: %w", n, err)
	}
	return m, nil
}
