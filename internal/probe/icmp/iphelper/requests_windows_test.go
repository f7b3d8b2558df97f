package iphelper

import (
	"bytes"
	"fmt"
	"net/netip"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/hopbench/hopbench/internal/testutil"
)

// native is a function that is called as those of the system's libraries are.
type native uintptr

func (n native) Call(arguments ...uintptr) (r1, r2 uintptr, lastErr error) {
	r1, r2, errno := syscall.SyscallN(uintptr(n), arguments...)
	return r1, r2, errno
}

// call6 is what Icmp6SendEcho2 was given, read as its prototype in icmpapi.h says.
type call6 struct {
	source, target [28]byte // sockaddr_in6
	request        string
	ttl, tos       byte
	timeout        uint32
	others         string
}

// The arguments of Icmp6SendEcho2 arrive as its prototype says, and its replies as they are
// laid out in memory: Wine has no such function, so that one of this test's takes its place.
func TestRequestsOverIPv6(t *testing.T) {
	const handle = 0x1234
	replies := []struct {
		from    string
		status  uint32
		payload string
	}{
		{"2001:db8::7", 0, "payload"},
		{"2001:db8:1::1", 11013, ""}, // a router where the hop limit ended
		{"2001:db8:1::1", 11040, ""}, // unreachable
	}
	calls := make(chan call6, len(replies))
	n := 0
	fake := native(syscall.NewCallback(func(handle, event, routine, routineContext uintptr, source, target *[28]byte,
		request *byte, requestBytes uint16, options *[16]byte, reply *byte, replyBytes, timeout uint32) uintptr {
		calls <- call6{*source, *target, string(unsafe.Slice(request, requestBytes)), options[0], options[1], timeout,
			fmt.Sprintf("%#x %d %d %d", handle, event, routine, routineContext)}
		r := replies[n]
		n++
		b := unsafe.Slice(reply, replyBytes)
		from := netip.MustParseAddr(r.from).As16()
		copy(b[6:], from[:])
		b[28], b[29] = byte(r.status), byte(r.status>>8)
		copy(b[36:], r.payload)
		return 1
	}))
	requests := newRequests(t.Context(), netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("fe80::7%5"), handle, fake)
	for id, want := range replies {
		testutil.OK(t, requests.Send(id, 3, []byte("payload"), 1500*time.Microsecond))
		answers := requests.Wait(time.Now().Add(time.Minute), nil)
		if len(answers) != 1 {
			t.Fatalf("%d answers", len(answers))
		}
		a := answers[0]
		if a.Err != nil || a.ID != id || a.From.String() != want.from || uint32(a.Status) != want.status || !bytes.HasPrefix(a.Payload, []byte(want.payload)) {
			t.Errorf("%+v came as %+v", want, a)
		}
		got := <-calls
		address := func(a string, scope byte) (s [28]byte) {
			s[0] = 23 // AF_INET6 of Windows
			b := netip.MustParseAddr(a).As16()
			copy(s[8:], b[:])
			s[24] = scope
			return s
		}
		if want := (call6{address("2001:db8::1", 0), address("fe80::7", 5), "payload", 3, 0, 2, "0x1234 0 0 0"}); got != want {
			t.Errorf("Icmp6SendEcho2 was given\n%+v, want\n%+v", got, want)
		}
	}
	requests.sending.Wait()
}
