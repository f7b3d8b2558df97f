package protocol

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/testutil"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testID = Identity{Session: strings.Repeat("0a", SessionDigits/2), Test: "b01-direct-tcp", Flow: 3}

// pair is a connection whose both ends time out, so that no test hangs.
func pair(t testing.TB) (client, server net.Conn) {
	t.Helper()
	client, server = net.Pipe()
	for _, c := range []net.Conn{client, server} {
		testutil.OK(t, c.SetDeadline(time.Now().Add(20*time.Second)))
		t.Cleanup(func() { _ = c.Close() })
	}
	return client, server
}

// serveHandshake is the server's side from the first byte on.
func serveHandshake(c net.Conn, token string) (Identity, error) {
	if err := ReadPreface(c); err != nil {
		return Identity{}, err
	}
	return ServerHandshake(c, token)
}

func TestHandshake(t *testing.T) {
	for _, c := range []struct {
		name           string
		client, server string
		fails          bool
	}{
		{"same token", "secret", "secret", false},
		{"both empty", "", "", false},
		{"different", "secret", "Secret", true},
		{"client without", "", "secret", true},
		{"server without", "secret", "", true},
		{"prefix", "secret", "secret0", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, server := pair(t)
			type result struct {
				id  Identity
				err error
			}
			far := make(chan result, 1)
			go func() {
				id, err := serveHandshake(server, c.server)
				far <- result{id, err}
			}()
			err := ClientHandshake(client, c.client, testID)
			got := <-far
			if c.fails {
				var remote *RemoteError
				if !errors.As(err, &remote) || remote.Reason != "unauthorized" {
					t.Errorf("client: %v, want to be told that it is not authorized", err)
				}
				if !errors.Is(got.err, ErrUnauthorized) {
					t.Errorf("server: %v", got.err)
				}
				return
			}
			if err != nil || got.err != nil || got.id != testID {
				t.Errorf("client %v, server %v, identity %+v", err, got.err, got.id)
			}
		})
	}
}

// A client that reached an iperf3 server says so.
func TestClientMeetsIPerf3(t *testing.T) {
	for _, answer := range []string{"\x09", "\xff"} {
		client, server := pair(t)
		go func() { _, _ = io.Copy(io.Discard, server) }()
		go func() { _, _ = io.WriteString(server, answer) }()
		err := ClientHandshake(client, "", testID)
		if !errors.Is(err, errIPerf3) || !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), "--iperf3") {
			t.Errorf("%x: got %v", answer, err)
		}
	}
}

// A server that does not hold the token can do nothing but reflect what the
// client sent, and the client notices.
func TestClientRefusesReflectedProof(t *testing.T) {
	client, server := pair(t)
	go func() {
		var hello Hello
		var proof Proof
		_ = ReadPreface(server) // what fails here fails the client's handshake
		_ = Expect(server, TypeHello, MaxUnauthenticated, &hello)
		_ = WritePreface(server)
		_ = WriteFrame(server, TypeChallenge, Challenge{Nonce: hello.Nonce})
		_ = Expect(server, TypeProof, MaxUnauthenticated, &proof)
		_ = WriteFrame(server, TypeAccept, proof)
	}()
	if err := ClientHandshake(client, "secret", testID); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("got %v, want ErrUnauthorized", err)
	}
}

// What a client says wrongly ends the server's handshake with a reason.
func TestServerRefuses(t *testing.T) {
	frame := func(ty Type, v any) string {
		b, err := Encode(ty, v)
		testutil.OK(t, err)
		return string(b)
	}
	start := string(preface[:])
	nonce := make([]byte, NonceBytes)
	bad := func(change func(*Identity)) string {
		id := testID
		change(&id)
		return start + frame(TypeHello, Hello{Identity: id, Nonce: nonce})
	}
	for _, c := range []struct {
		name, bytes string
		want        error
	}{
		{"nothing", "", io.EOF},
		{"HTTP", "GET / HTTP/1.1\r\n\r\n", ErrMalformed},
		{"iperf3's cookie", "abcdefghijklmnopqrstuvwxyz234567abcd\x00", ErrMalformed},
		{"half a preface", start[:4], io.ErrUnexpectedEOF},
		{"almost a preface", "\xf0hopbnx\x01", ErrMalformed},
		{"another version", "\xf0hopbnc\x02", &VersionError{}},
		{"no frame", start, io.EOF},
		{"half a header", start + "\x01\x00\x00", io.ErrUnexpectedEOF},
		{"flags", start + "\x01\x01\x00\x00\x00\x00\x00\x00", ErrMalformed},
		{"half a payload", start + "\x01\x00\x00\x00\x00\x00\x00\x09{}", io.ErrUnexpectedEOF},
		{"too long", start + "\x01\x00\x00\x00\x00\x00\x04\x01", ErrMalformed},
		{"4 GiB", start + "\x01\x00\x00\x00\xff\xff\xff\xff", ErrMalformed},
		{"data", start + "\x13\x00\x00\x00\x00\x00\x00\x01x", ErrMalformed},
		{"another frame first", start + frame(TypeProof, Proof{}), ErrMalformed},
		{"not JSON", start + "\x01\x00\x00\x00\x00\x00\x00\x02{{", ErrMalformed},
		{"short nonce", start + frame(TypeHello, Hello{Identity: testID, Nonce: nonce[1:]}), ErrMalformed},
		{"short session", bad(func(id *Identity) { id.Session = "00" }), ErrMalformed},
		{"odd session", bad(func(id *Identity) { id.Session = strings.Repeat("Z", SessionDigits) }), ErrMalformed},
		{"long name", bad(func(id *Identity) { id.Test = strings.Repeat("x", maxTestName+1) }), ErrMalformed},
		{"negative flow", bad(func(id *Identity) { id.Flow = -1 }), ErrMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, server := pair(t)
			done := make(chan error, 1)
			go func() {
				_, err := serveHandshake(server, "secret")
				_ = server.Close()
				done <- err
			}()
			drained := make(chan struct{})
			go func() { defer close(drained); _, _ = io.Copy(io.Discard, client) }()
			_, _ = io.WriteString(client, c.bytes) // the server may refuse before the last byte
			_ = client.Close()
			err := <-done
			<-drained
			if version := new(VersionError); errors.As(c.want, &version) {
				if !errors.As(err, &version) || version.Theirs != 2 {
					t.Errorf("got %v", err)
				}
			} else if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestFramesRoundTrip(t *testing.T) {
	var wire bytes.Buffer
	want := Sent{Bytes: 12, Facts: []string{"a fact"}}
	testutil.OK(t, WriteFrame(&wire, TypeSent, want))
	testutil.OK(t, WriteFrame(&wire, TypeStart, nil))
	var got Sent
	if err := Expect(&wire, TypeSent, MaxControl, &got); err != nil || got.Bytes != 12 || len(got.Facts) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if err := Expect(&wire, TypeStart, MaxControl, nil); err != nil {
		t.Error(err)
	}
}

func TestErrorFrame(t *testing.T) {
	var wire bytes.Buffer
	testutil.OK(t, WriteFrame(&wire, TypeError, &RemoteError{Reason: "limit", Message: "too many"}))
	var remote *RemoteError
	if err := Expect(&wire, TypeReady, MaxControl, nil); !errors.As(err, &remote) || remote.Reason != "limit" {
		t.Errorf("got %v", err)
	}
}

// Why the other end ends a connection is heard whatever may come in its place, up to a bound.
func TestExpectHearsErrors(t *testing.T) {
	for _, limit := range []int{Empty, MaxUnauthenticated, MaxControl} {
		long := strings.Repeat("x", MaxUnauthenticated)
		var remote *RemoteError
		var b bytes.Buffer
		testutil.OK(t, WriteFrame(&b, TypeError, RemoteError{Reason: "timeout", Message: long}))
		if err := Expect(&b, TypeStop, limit, nil); !errors.As(err, &remote) || remote.Reason != "timeout" {
			t.Errorf("in place of %d bytes an error is read as %v", limit, err)
		}
	}
	var b bytes.Buffer
	testutil.OK(t, WriteBytes(&b, TypeError, make([]byte, MaxError+1)))
	if err := Expect(&b, TypeStop, Empty, nil); !errors.Is(err, ErrMalformed) || b.Len() != MaxError+1 {
		t.Errorf("an error of more than its bound: %v, %d bytes are left unread", err, b.Len())
	}
	b.Reset()
	testutil.OK(t, WriteBytes(&b, TypeStop, []byte{0}))
	if err := Expect(&b, TypeStop, Empty, nil); !errors.Is(err, ErrMalformed) {
		t.Errorf("a frame that has to be empty: %v", err)
	}
}

func TestEncodeRefusesTooLong(t *testing.T) {
	if _, err := Encode(TypeSent, Sent{Facts: []string{strings.Repeat("x", MaxControl)}}); err == nil {
		t.Error("a frame longer than its type allows was encoded")
	}
}

// A header that lies about its length must not cost memory.
func TestReadPayloadAllocatesWhatArrives(t *testing.T) {
	header := []byte{byte(TypeAgentReply), 0, 0, 0, 1, 0, 0, 0} // 16 MiB
	allocated := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if _, _, err := ReadFrame(bytes.NewReader(header), MaxAgentReply); err == nil {
				b.Fatal("an empty payload was read")
			}
		}
	}).AllocedBytesPerOp()
	if allocated > 64<<10 {
		t.Errorf("a lying header costs %d bytes", allocated)
	}
}

func FuzzReadFrame(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 2, '{', '}'})
	f.Add([]byte{byte(TypeError), 0, 0, 0, 0, 0, 0, 2, '{', '}'})
	f.Add([]byte{byte(TypeData), 0, 0, 0, 0x3f, 0xff, 0xff, 0xff, 0})
	f.Add(deflated(f, TypeReport, []byte(`{"answered":5}`), 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		ty, payload, err := ReadFrame(r, MaxUnauthenticated)
		if err != nil {
			return
		}
		if len(payload) > MaxUnauthenticated || ty == TypeData {
			t.Fatalf("type %#x with %d bytes was let through", byte(ty), len(payload))
		}
		var again bytes.Buffer
		header := make([]byte, HeaderBytes)
		PutHeader(header, ty, len(payload))
		again.Write(header)
		again.Write(payload)
		if b[1] == 0 && !bytes.Equal(again.Bytes(), b[:len(b)-r.Len()]) {
			t.Fatal("a frame does not encode to what was read")
		}
		for _, v := range []any{new(Hello), new(Open), new(Ready), new(Received), new(Sent), new(Report)} {
			_ = Decode(ty, payload, ty, v) // must not panic; nonsense is an error
		}
	})
}

func FuzzPreface(f *testing.F) {
	f.Add(preface[:])
	f.Add([]byte("abcdefghijklmnopqrstuvwxyz234567abcd\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		err := ReadPreface(bytes.NewReader(b))
		if ok := bytes.HasPrefix(b, preface[:]); ok != (err == nil) {
			t.Fatalf("% x: %v", b, err)
		}
	})
}

// fuzzed is a connection on which the other end says the fuzzer's bytes.
type fuzzed struct{ io.Reader }

func (fuzzed) Write(p []byte) (int, error) { return len(p), nil }

func FuzzServerHandshake(f *testing.F) {
	hello, err := Encode(TypeHello, Hello{Identity: testID, Nonce: make([]byte, NonceBytes)})
	testutil.OK(f, err)
	proof, err := Encode(TypeProof, Proof{MAC: make([]byte, 32)})
	testutil.OK(f, err)
	f.Add(append(hello, proof...))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := ServerHandshake(fuzzed{bytes.NewReader(b)}, "secret"); err == nil {
			t.Fatal("authenticated without the token")
		}
	})
}

func FuzzClientHandshake(f *testing.F) {
	challenge, err := Encode(TypeChallenge, Challenge{Nonce: make([]byte, NonceBytes)})
	testutil.OK(f, err)
	f.Add(append(preface[:], challenge...))
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := ClientHandshake(fuzzed{bytes.NewReader(b)}, "secret", testID); err == nil {
			t.Fatal("took a server without the token for one with it")
		}
	})
}
