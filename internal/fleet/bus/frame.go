package bus

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// What two ends say to each other over a link is a stream of bytes, cut into messages:
//
//	byte 0        kind
//	bytes 1–8     session, which the agent draws; big-endian
//	bytes 9–16    number of the message in its direction and session, from 0; big-endian
//	the rest      data
//
// NATS delivers a message once or not at all, in order. One that is missing, or comes
// twice, ends the link.
const headerBytes = 17

// maxData bounds the data of a message, in bytes: half of what the broker takes.
const maxData = 512 << 10

// kind is what a message is.
type kind byte

const (
	kindJoin   kind = 1 // of an agent: it is there; data is a Hello
	kindAccept kind = 2 // of the coordinator: the session begins; see accepted
	kindData   kind = 3
	kindEnd    kind = 4 // the session ends; data says why, empty for a good end
	kindRefuse kind = 5 // of the coordinator: there will be none; data says why
)

type message struct {
	kind    kind
	session uint64
	number  uint64
	data    []byte
}

// bytes is the message as it goes over the wire.
func (m message) bytes() []byte {
	b := make([]byte, 0, headerBytes+len(m.data))
	b = append(b, byte(m.kind))
	b = binary.BigEndian.AppendUint64(b, m.session)
	b = binary.BigEndian.AppendUint64(b, m.number)
	return append(b, m.data...)
}

var errMalformed = errors.New("no message of a link")

func parseMessage(raw []byte) (message, error) {
	if len(raw) < headerBytes || len(raw) > headerBytes+maxData || raw[0] < byte(kindJoin) || raw[0] > byte(kindRefuse) {
		return message{}, fmt.Errorf("%w: %d bytes", errMalformed, len(raw))
	}
	return message{kind(raw[0]), binary.BigEndian.Uint64(raw[1:]), binary.BigEndian.Uint64(raw[9:]), raw[headerBytes:]}, nil
}

// linkVersion is that of this package's messages.
const linkVersion = 2

// Hello is what an agent says of itself when it joins.
type Hello struct {
	Link    int    `json:"link"`    // version of the messages
	Version string `json:"version"` // of its hopbench
	// Labels are what its machine is for, as in role=client.
	Labels []string `json:"labels,omitempty"`
	// Stream is the session with which the stream began that is to go on, 0 where there is
	// none, and Read how many bytes of it this agent has read.
	Stream uint64 `json:"stream,omitempty"`
	Read   uint64 `json:"read,omitempty"`
}

const (
	maxHello  = 8 << 10
	maxLabels = 32
	maxLabel  = 128
)

// CheckLabel says why something is no label.
func CheckLabel(label string) error {
	name, value, both := strings.Cut(label, "=")
	if !both || name == "" || value == "" || len(label) > maxLabel || strings.ContainsFunc(label, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("%.*q is no label: write NAME=VALUE, of at most %d letters, digits and signs", maxLabel, label, maxLabel)
	}
	return nil
}

// accepted is what a coordinator says when it takes an agent: how many bytes of the stream it
// has read, or nothing where the stream begins.
type accepted struct {
	goesOn bool
	read   uint64
}

func (a accepted) bytes() []byte {
	if !a.goesOn {
		return nil
	}
	return binary.BigEndian.AppendUint64(nil, a.read)
}

func parseAccepted(data []byte) (accepted, error) {
	switch len(data) {
	case 0:
		return accepted{}, nil
	case 8:
		return accepted{true, binary.BigEndian.Uint64(data)}, nil
	}
	return accepted{}, fmt.Errorf("%w: accepted with %d bytes", errMalformed, len(data))
}

func parseHello(data []byte) (Hello, error) {
	var h Hello
	if len(data) > maxHello {
		return h, fmt.Errorf("%w: a hello of %d bytes", errMalformed, len(data))
	}
	if err := json.Unmarshal(data, &h); err != nil {
		return Hello{}, fmt.Errorf("%w: hello: %w", errMalformed, err)
	}
	if len(h.Labels) > maxLabels {
		return Hello{}, fmt.Errorf("%w: %d labels", errMalformed, len(h.Labels))
	}
	for _, l := range h.Labels {
		if err := CheckLabel(l); err != nil {
			return Hello{}, err
		}
	}
	return h, nil
}
