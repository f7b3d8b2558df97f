package iperf3

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/hopbench/hopbench/internal/printable"
)

// state is a message of one byte on the control connection.
type state int8

// The states (src/iperf_api.h).
const (
	testStart       state = 1
	testRunning     state = 2
	testEnd         state = 4
	paramExchange   state = 9
	createStreams   state = 10
	serverTerminate state = 11
	clientTerminate state = 12
	exchangeResults state = 13
	displayResults  state = 14
	iperfDone       state = 16
	accessDenied    state = -1
	serverError     state = -2
)

func (s state) String() string {
	names := map[state]string{
		testStart: "TEST_START", testRunning: "TEST_RUNNING", testEnd: "TEST_END", paramExchange: "PARAM_EXCHANGE",
		createStreams: "CREATE_STREAMS", serverTerminate: "SERVER_TERMINATE", clientTerminate: "CLIENT_TERMINATE",
		exchangeResults: "EXCHANGE_RESULTS", displayResults: "DISPLAY_RESULTS", iperfDone: "IPERF_DONE",
		accessDenied: "ACCESS_DENIED", serverError: "SERVER_ERROR",
	}
	if name, ok := names[s]; ok {
		return name
	}
	return fmt.Sprintf("state %d", int8(s))
}

// code is iperf3's i_errno: the reason that follows SERVER_ERROR.
type code int32

// The codes this server sends (src/iperf_api.h).
const (
	codeDuration       code = 5
	codeStreams        code = 6
	codeBlockSize      code = 7
	codeBufferSize     code = 8
	codeMSS            code = 10
	codeOmit           code = 12
	codeBurst          code = 15
	codeNoSCTP         code = 18
	codeUDPBlockSize   code = 20
	codeTOS            code = 21
	codeReverseBidir   code = 25
	codeTotalRate      code = 27
	codeMaxDuration    code = 37 // since 3.20
	codeMessage        code = 110
	codeRecvParams     code = 114
	codeSetTOS         code = 125
	codeCongestion     code = 134
	codePacing         code = 140
	codeBuffer         code = 141
	codeAuthorization  code = 142
	codeNoMessage      code = 144
	codeExpired        code = 160 // since 3.20
	codeStreamListen   code = 202
	codeStreamAccept   code = 204
	codeStreamTransfer code = 206
)

// texts say what the codes mean that a server may send, for people.
var texts = map[code]string{
	codeDuration:       "the test is longer than the server allows",
	codeStreams:        "more parallel streams than the server allows",
	codeBlockSize:      "the block size is not possible",
	codeBufferSize:     "the socket buffer is too large",
	codeMSS:            "the MSS is not possible",
	codeOmit:           "the omitted time is not possible",
	codeBurst:          "the burst is not possible",
	codeNoSCTP:         "the server has no SCTP",
	codeUDPBlockSize:   "the size of datagrams is not possible",
	codeTOS:            "the type of service is not possible",
	codeReverseBidir:   "a test cannot be both reverse and bidirectional",
	codeTotalRate:      "the rate is above the server's limit; ask for a lower one",
	codeMaxDuration:    "the test is longer than the server allows",
	codeMessage:        "the server did not understand a message",
	codeRecvParams:     "the server did not understand the test's parameters",
	codeSetTOS:         "the server cannot set the type of service",
	codeCongestion:     "the server cannot set the congestion control algorithm",
	codePacing:         "the server cannot set the pacing rate",
	codeBuffer:         "the server's kernel does not allow so large a socket buffer (net.core.rmem_max, wmem_max)",
	codeAuthorization:  "the server demands authorization, a user name and password or a token, which iperf3 clients here cannot give",
	codeNoMessage:      "nothing arrived at the server for too long",
	codeExpired:        "the test took longer than the server allows",
	codeStreamListen:   "the server cannot listen for streams; it may have no UDP",
	codeStreamAccept:   "the server did not see all streams",
	codeStreamTransfer: "the server lost a stream",
}

func (c code) String() string {
	if text, ok := texts[c]; ok {
		return text
	}
	return fmt.Sprintf("iperf3's error %d (src/iperf_api.h)", int32(c))
}

// ErrMalformed says that the other end does not speak iperf3's protocol.
var ErrMalformed = errors.New("not iperf3's protocol")

const (
	cookieBytes = 37
	// maxParams bounds the parameters: iperf3's own bound is 8 KiB since 3.14.
	maxParams = 64 << 10
)

// maxResults bounds results: at most a stream takes a KiB, the rest is text.
func maxResults(streams int) int { return maxParams + streams<<10 }

type cookie [cookieBytes]byte

// BeginsCookie says whether a connection that begins with b may be an iperf3
// client's. Since 3.2 the cookie is of [a-z2-7]; before, it began with the name
// of the client's host.
func BeginsCookie(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
}

// parseCookie checks that b is printable and ends with a zero.
func parseCookie(b []byte) (cookie, error) {
	if len(b) != cookieBytes || b[cookieBytes-1] != 0 || !BeginsCookie(b[0]) {
		return cookie{}, fmt.Errorf("%w: no cookie", ErrMalformed)
	}
	for _, c := range b[:cookieBytes-1] {
		if c <= ' ' || c > '~' {
			return cookie{}, fmt.Errorf("%w: a cookie with the byte %02x", ErrMalformed, c)
		}
	}
	return cookie(b), nil
}

// newCookie draws letters and digits of [a-z2-7], as iperf3 does, and a zero.
func newCookie() (c cookie) {
	copy(c[:cookieBytes-1], strings.ToLower(rand.Text()+rand.Text()))
	return c
}

func writeState(w io.Writer, states ...state) error {
	b := make([]byte, len(states))
	for i, s := range states {
		b[i] = byte(s)
	}
	_, err := w.Write(b)
	return err
}

// writeMessage sends a JSON value behind its length.
func writeMessage(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

// maxText bounds a text of the other end, in runes.
const maxText = 200

// readMessage reads a JSON value of at most limit bytes into v, whose texts are then
// safe to show.
func readMessage(r io.Reader, limit int, v any) error {
	length, err := readLength(r, limit)
	if err != nil {
		return err
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(r, text); err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		// It quotes what it did not understand.
		return fmt.Errorf("%w: %s", ErrMalformed, printable.Line(err.Error(), maxText))
	}
	printable.Fields(v, printable.Bounds{Text: maxText, Item: maxText, Key: maxText, Value: maxText, Items: maxText})
	return nil
}

// skipMessage reads a JSON value of at most limit bytes, and keeps none of them.
func skipMessage(r io.Reader, limit int) error {
	length, err := readLength(r, limit)
	if err == nil {
		_, err = io.CopyN(io.Discard, r, int64(length))
	}
	return err
}

func readLength(r io.Reader, limit int) (int, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, err
	}
	length := binary.BigEndian.Uint32(head[:])
	if length == 0 || length > uint32(limit) {
		return 0, fmt.Errorf("%w: a message of %d bytes, at most %d are allowed", ErrMalformed, length, limit)
	}
	return int(length), nil
}

// flag is what iperf3 writes as true in some versions and for some keys, and as
// a number in others.
type flag bool

func (f *flag) UnmarshalJSON(b []byte) error {
	var number float64
	switch {
	case string(b) == "true":
		*f = true
	case string(b) == "false", string(b) == "null":
		*f = false
	case json.Unmarshal(b, &number) == nil:
		*f = number != 0
	default:
		return fmt.Errorf("a flag is %.20q", b)
	}
	return nil
}

// numeric is a flag that iperf3 writes as a number. Since 3.18 it ignores any other
// value of these keys.
type numeric bool

func (n *numeric) UnmarshalJSON(b []byte) error { return (*flag)(n).UnmarshalJSON(b) }

func (n numeric) MarshalJSON() ([]byte, error) {
	if n {
		return []byte("1"), nil
	}
	return []byte("0"), nil
}
