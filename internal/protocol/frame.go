package protocol

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/hopbench/hopbench/internal/printable"
)

// Type says what a frame's payload is.
type Type uint8

// The frame types. docs/protocol.md says who sends which when.
const (
	TypeHello     Type = 0x01 // client → server: identity and nonce
	TypeChallenge Type = 0x02 // server → client: nonce
	TypeProof     Type = 0x03 // client → server: MAC
	TypeAccept    Type = 0x04 // server → client: MAC
	TypeOpen      Type = 0x10 // client → server: what to do
	TypeReady     Type = 0x11 // server → client: prepared
	TypeStart     Type = 0x12 // client → server: go
	TypeData      Type = 0x13 // sender → receiver: bytes to count and discard
	TypeReceived  Type = 0x14 // receiver → sender: stop; what was received
	TypeSent      Type = 0x15 // sender → receiver: end; what was sent
	TypeReport    Type = 0x16 // server → client: end of a request/response test
	TypeReached   Type = 0x18 // server → client: the flow's first UDP packet came
	TypeStop      Type = 0x19 // receiver → sender of UDP packets: the measured time is over
	TypeError     Type = 0x1f // either: the connection ends, and why

	// Between a coordinator and its agent.
	TypeAgentRequest  Type = 0x20
	TypeAgentCancel   Type = 0x21
	TypeAgentProgress Type = 0x22
	TypeAgentReply    Type = 0x23
	TypeAgentPrepared Type = 0x24
	TypeAgentStart    Type = 0x25
	TypeAgentClock    Type = 0x26
	TypeAgentSamples  Type = 0x27 // agent → coordinator: a block of samples, not JSON
	TypeAgentKept     Type = 0x28 // coordinator → agent: the blocks that are on its disk, and credit
	TypeAgentResult   Type = 0x29 // agent → coordinator: what a test of an earlier connection brought
	TypeAgentSettled  Type = 0x2a // coordinator → agent: a result that is on its disk
)

// HeaderBytes is the length of a frame's header:
//
//	0       1       2       3       4                               8
//	+-------+-------+---------------+-------------------------------+
//	| type  | flags |   reserved    |   payload length, big endian  |
//	+-------+-------+---------------+-------------------------------+
//
// Reserved is zero in version 1 and must be, and so are the flags, but for Deflated.
const HeaderBytes = 8

const (
	// MaxUnauthenticated bounds every payload before both ends have proved the token.
	MaxUnauthenticated = 1 << 10
	// MaxControl bounds every control payload after that.
	MaxControl = 1 << 20
	// Empty is the bound of a frame that carries nothing but its type.
	Empty = 0
	// MaxOpen bounds what a client may ask in one frame.
	MaxOpen = 16 << 10
	// MaxError bounds an ERROR frame in place of one that may have less.
	MaxError = 4 << 10
	// MaxSentPackets bounds what a client says of the packets that it sent.
	MaxSentPackets = 64 << 10
	// MaxAgentReply bounds an agent's reply to its coordinator.
	MaxAgentReply = 16 << 20
	// MaxData bounds the payload of a DATA frame, which nobody stores.
	MaxData = 1 << 30
)

// Header is a decoded frame header.
type Header struct {
	Type     Type
	Length   int
	Deflated bool
}

// ErrMalformed is what every violation of the format wraps.
var ErrMalformed = errors.New("malformed frame")

// PutHeader writes a frame header to the first HeaderBytes of b.
func PutHeader(b []byte, t Type, length int) {
	_ = b[HeaderBytes-1]
	b[0], b[1], b[2], b[3] = byte(t), 0, 0, 0
	binary.BigEndian.PutUint32(b[4:], uint32(length))
}

// ParseHeader reads a frame header from the first HeaderBytes of b.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < HeaderBytes {
		return Header{}, fmt.Errorf("%w: header of %d bytes, want %d", ErrMalformed, len(b), HeaderBytes)
	}
	deflated := b[1] == flagDeflated && deflates(Type(b[0]))
	if !deflated && b[1] != 0 || b[2] != 0 || b[3] != 0 {
		return Header{}, fmt.Errorf("%w: reserved bytes are % x, want zero", ErrMalformed, b[1:4])
	}
	length := binary.BigEndian.Uint32(b[4:])
	if limit := maxPayload(Type(b[0])); length > uint32(limit) {
		return Header{}, fmt.Errorf("%w: payload of %d bytes in a frame of type %#x, at most %d", ErrMalformed, length, b[0], limit)
	}
	return Header{Type: Type(b[0]), Length: int(length), Deflated: deflated}, nil
}

func maxPayload(t Type) int {
	switch t {
	case TypeData:
		return MaxData
	case TypeAgentReply, TypeAgentResult:
		return MaxAgentReply
	}
	return MaxControl
}

// ReadHeader reads the next frame header.
func ReadHeader(r io.Reader) (Header, error) {
	var b [HeaderBytes]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return Header{}, err
	}
	return ParseHeader(b[:])
}

// ReadPayload reads the payload that h announces, of at most limit bytes. It
// allocates as bytes arrive, so that a lying header costs its sender the
// bytes, not the reader the memory.
func ReadPayload(r io.Reader, h Header, limit int) ([]byte, error) {
	if h.Type == TypeData {
		return nil, fmt.Errorf("%w: unexpected data frame", ErrMalformed)
	}
	if h.Length > limit {
		return nil, fmt.Errorf("%w: payload of %d bytes in a frame of type %#x, at most %d here", ErrMalformed, h.Length, byte(h.Type), limit)
	}
	payload, err := io.ReadAll(io.LimitReader(r, int64(h.Length)))
	if err == nil && len(payload) < h.Length {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	if h.Deflated {
		return inflate(payload, limit)
	}
	return payload, nil
}

// ReadFrame reads one control frame with a payload of at most limit bytes.
func ReadFrame(r io.Reader, limit int) (Type, []byte, error) {
	h, err := ReadHeader(r)
	if err != nil {
		return 0, nil, err
	}
	payload, err := ReadPayload(r, h, limit)
	if err != nil {
		return 0, nil, err
	}
	return h.Type, payload, nil
}

// Encode returns a whole control frame with v as its JSON payload; a nil v
// gives an empty payload.
func Encode(t Type, v any) ([]byte, error) {
	if v == nil {
		return frameOf(t)
	}
	payload, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode frame of type %#x: %w", byte(t), err)
	}
	return frameOf(t, payload)
}

// frameOf is a whole frame with a payload in parts.
func frameOf(t Type, parts ...[]byte) ([]byte, error) {
	frame := slices.Concat(append([][]byte{make([]byte, HeaderBytes)}, parts...)...)
	length := len(frame) - HeaderBytes
	if limit := maxPayload(t); length > limit {
		return nil, fmt.Errorf("encode frame of type %#x: payload of %d bytes, at most %d", byte(t), length, limit)
	}
	PutHeader(frame, t, length)
	return frame, nil
}

// WriteFrame writes one control frame in one Write, deflated if w says that its other end
// reads that.
func WriteFrame(w io.Writer, t Type, v any) error {
	frame, err := Encode(t, v)
	if err != nil {
		return err
	}
	if to, ok := w.(interface{ Deflates() bool }); ok && to.Deflates() {
		frame = deflate(frame)
	}
	_, err = w.Write(frame)
	return err
}

// WriteBytes writes one control frame with a payload that is not JSON, in one Write.
func WriteBytes(w io.Writer, t Type, parts ...[]byte) error {
	frame, err := frameOf(t, parts...)
	if err != nil {
		return err
	}
	_, err = w.Write(frame)
	return err
}

// Expect reads one control frame after ACCEPT that must be of type t, into v. A frame of
// TypeError, which may have MaxError bytes if limit is less, is returned as the *RemoteError
// that it carries.
func Expect(r io.Reader, t Type, limit int, v any) error {
	h, err := ReadHeader(r)
	if err != nil {
		return err
	}
	if h.Type == TypeError && t != TypeError {
		limit = max(limit, MaxError)
	}
	payload, err := ReadPayload(r, h, limit)
	if err != nil {
		return err
	}
	return Decode(h.Type, payload, t, v)
}

// Decode checks that a frame of type got is the wanted one and decodes its
// payload into v: its texts are then safe to show, and its numbers possible.
func Decode(got Type, payload []byte, want Type, v any) error {
	if got == TypeError && want != TypeError {
		remote := new(RemoteError)
		if err := unmarshal(payload, remote, errorBounds); err != nil {
			return fmt.Errorf("%w: error frame: %w", ErrMalformed, err)
		}
		return remote
	}
	if got != want {
		return fmt.Errorf("%w: got a frame of type %#x, want %#x", ErrMalformed, byte(got), byte(want))
	}
	if v == nil {
		return nil
	}
	bounds := textBounds
	if want == TypeError {
		bounds = errorBounds
	}
	if err := unmarshal(payload, v, bounds); err != nil {
		return fmt.Errorf("%w: payload of type %#x: %w", ErrMalformed, byte(got), err)
	}
	if message, ok := v.(checker); ok {
		return message.Check()
	}
	return nil
}

// unmarshal decodes a peer's JSON, texts cleaned. So is the error: it quotes what
// it did not understand.
func unmarshal(payload []byte, v any, bounds printable.Bounds) error {
	if err := json.Unmarshal(payload, v); err != nil {
		return errors.New(printable.Line(err.Error(), maxExplained))
	}
	printable.Fields(v, bounds)
	return nil
}

// DecodeAgent decodes what an agent wrote into v: its texts are then safe to show.
func DecodeAgent(payload []byte, v any) error {
	if err := unmarshal(payload, v, agentBounds); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}
