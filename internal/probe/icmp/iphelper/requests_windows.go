package iphelper

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/hopbench/hopbench/internal/probe/icmp/wire"
)

var (
	iphlpapi        = windows.NewLazySystemDLL("iphlpapi.dll")
	icmpCreateFile  = iphlpapi.NewProc("IcmpCreateFile")
	icmpSendEcho    = iphlpapi.NewProc("IcmpSendEcho2Ex")
	icmp6CreateFile = iphlpapi.NewProc("Icmp6CreateFile")
	icmp6SendEcho   = iphlpapi.NewProc("Icmp6SendEcho2")
	icmpCloseHandle = iphlpapi.NewProc("IcmpCloseHandle")

	kernel32    = windows.NewLazySystemDLL("kernel32.dll")
	readCounter = kernel32.NewProc("QueryPerformanceCounter")
	readRate    = kernel32.NewProc("QueryPerformanceFrequency")
)

// mostOpen bounds requests without an answer: each holds a thread, for the API
// waits for the answer of a request in the call that sends it.
const mostOpen = 256

// Answer is what became of a request: a reply or an ICMP error, after Took, or
// why the system did not send it. Those that nobody answers have none.
type Answer struct {
	ID int
	Reply
	Took time.Duration
	Err  error
}

// Requests sends echo requests from one address to another. It is used by one
// goroutine.
type Requests struct {
	ctx            context.Context
	source, target netip.Addr
	handle         uintptr
	rate           int64 // of the performance counter, in ticks a second
	send6          caller
	open           chan struct{}
	answers        chan Answer
	sending        sync.WaitGroup
}

// Open makes Requests; a source that is not valid is left to the system. The
// caller must Close them. The end of ctx ends a Wait.
func Open(ctx context.Context, source, target netip.Addr) (*Requests, error) {
	create := icmpCreateFile
	if target.Is6() {
		create = icmp6CreateFile
	}
	if err := create.Find(); err != nil {
		return nil, fmt.Errorf("ICMP echo: %w", err)
	}
	handle, _, err := create.Call()
	if windows.Handle(handle) == windows.InvalidHandle {
		return nil, fmt.Errorf("%s: %w", create.Name, err)
	}
	return newRequests(ctx, source, target, handle, icmp6SendEcho), nil
}

// caller is a function of the system's.
type caller interface {
	Call(arguments ...uintptr) (r1, r2 uintptr, lastErr error)
}

func newRequests(ctx context.Context, source, target netip.Addr, handle uintptr, send6 caller) *Requests {
	r := &Requests{
		ctx: ctx, source: source, target: target, handle: handle, send6: send6,
		open: make(chan struct{}, mostOpen),
		// Never full: an answer is taken before its request makes room for another.
		answers: make(chan Answer, mostOpen),
	}
	// Neither it nor the counter fails since Windows XP.
	_, _, _ = readRate.Call(uintptr(unsafe.Pointer(&r.rate)))
	return r
}

// Send sends a request whose answer will bear id, with a time to live, and
// waits for it elsewhere, for timeout at most. It keeps payload.
func (r *Requests) Send(id, ttl int, payload []byte, timeout time.Duration) error {
	select {
	case r.open <- struct{}{}:
	default:
		return fmt.Errorf("%d requests wait for answers, which is the most that is allowed here: lengthen the interval or shorten the timeout", mostOpen)
	}
	r.sending.Go(func() {
		a := r.ask(ttl, payload, timeout)
		a.ID = id
		if a.Status == TimedOut {
			<-r.open
			return
		}
		r.answers <- a
	})
	return nil
}

// Wait blocks until an answer comes, the time has come or the context ended,
// and appends what came.
func (r *Requests) Wait(until time.Time, answers []Answer) []Answer {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-r.ctx.Done():
		return answers
	case <-timer.C:
	case a := <-r.answers:
		answers = append(answers, a)
		<-r.open
	}
	for {
		select {
		case a := <-r.answers:
			answers = append(answers, a)
			<-r.open
		default:
			return answers
		}
	}
}

// Close waits for the requests that are still open, up to their timeout, since
// the API cannot call them off.
func (r *Requests) Close() error {
	r.sending.Wait()
	if ok, _, err := icmpCloseHandle.Call(r.handle); ok == 0 {
		return fmt.Errorf("IcmpCloseHandle: %w", err)
	}
	return nil
}

// optionInformation is IP_OPTION_INFORMATION of ipexport.h.
type optionInformation struct {
	ttl, tos, flags, optionsSize uint8
	options                      *byte
}

// ask sends a request and waits for its answer.
func (r *Requests) ask(ttl int, payload []byte, timeout time.Duration) Answer {
	options := optionInformation{ttl: uint8(ttl)}
	// Documented is room for the reply, the payload, an ICMP error (8 bytes) and
	// an IO_STATUS_BLOCK (two pointers).
	const pointerBytes = int(unsafe.Sizeof(uintptr(0)))
	b := make([]byte, max(reply4Bytes(pointerBytes), reply6Bytes)+max(len(payload), 8)+8+2*pointerBytes)
	data := unsafe.Pointer(unsafe.SliceData(payload))
	milliseconds := uintptr((timeout + time.Millisecond - 1) / time.Millisecond)
	v6 := r.target.Is6()
	var n uintptr
	var err error
	began := r.now()
	if v6 {
		source, target := socketAddress(r.source), socketAddress(r.target)
		n, _, err = r.send6.Call(r.handle, 0, 0, 0, uintptr(unsafe.Pointer(&source)), uintptr(unsafe.Pointer(&target)),
			uintptr(data), uintptr(len(payload)), uintptr(unsafe.Pointer(&options)), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), milliseconds)
	} else {
		n, _, err = icmpSendEcho.Call(r.handle, 0, 0, 0, inAddr(r.source), inAddr(r.target),
			uintptr(data), uintptr(len(payload)), uintptr(unsafe.Pointer(&options)), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), milliseconds)
	}
	a := Answer{Took: r.since(began)}
	switch {
	case n == 0:
		a.Status, a.Err = failed(err)
	case v6:
		a.Reply, a.Err = parse6(b)
	default:
		// The API fills b with pointers into b, which the heap keeps in place.
		a.Reply, a.Err = parse4(b, uint64(uintptr(unsafe.Pointer(&b[0]))), pointerBytes)
	}
	runtime.KeepAlive(b)
	return a
}

// failed reads the error of a call that brought no reply, which may be an
// IP_STATUS.
func failed(err error) (Status, error) {
	var errno windows.Errno
	if errors.As(err, &errno) && Status(errno) == TimedOut {
		return TimedOut, nil
	}
	return Success, fmt.Errorf("send: %w", err)
}

// inAddr is an address as IPAddr of inaddr.h, in network order; INADDR_ANY when
// it is not valid.
func inAddr(a netip.Addr) uintptr {
	if !a.IsValid() {
		return 0
	}
	b := a.As4()
	return uintptr(b[0]) | uintptr(b[1])<<8 | uintptr(b[2])<<16 | uintptr(b[3])<<24
}

// socketAddress is an address as sockaddr_in6; in6addr_any when it is not valid.
func socketAddress(a netip.Addr) windows.RawSockaddrInet6 {
	s := windows.RawSockaddrInet6{Family: windows.AF_INET6}
	if a.IsValid() {
		s.Addr = a.As16()
		s.Scope_id = wire.ZoneIndex(a.Zone())
	}
	return s
}

// now reads the performance counter: the clock of package time ticks only every
// 0.5 to 15.6 ms on Windows.
func (r *Requests) now() int64 {
	var ticks int64
	_, _, _ = readCounter.Call(uintptr(unsafe.Pointer(&ticks)))
	return ticks
}

func (r *Requests) since(began int64) time.Duration {
	return time.Duration(float64(r.now()-began) / float64(r.rate) * float64(time.Second))
}
