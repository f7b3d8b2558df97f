package agent

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testToken = "a shared secret"

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// serving runs an agent, and gives its coordinator's end of the connection and how it ended.
func serving(o Options) (near net.Conn, ended <-chan error) {
	near, far := net.Pipe()
	done := make(chan error, 1)
	go func() { done <- Serve(context.Background(), far, o) }()
	return near, done
}

// start runs an agent and returns its coordinator's client. The agent must end
// by itself, without an error, when the client closes.
func start(t *testing.T) *Client {
	t.Helper()
	near, done := serving(Options{})
	c := NewClient(near)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Serve: %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Error("the agent outlived its control connection")
		}
	})
	return c
}

// listen has the agent listen on a port of loopback that is free for TCP and UDP.
func listen(t *testing.T, c *Client, token string) netip.AddrPort {
	t.Helper()
	return listenAs(t, c, Serving{Token: token})
}

func listenAs(t *testing.T, c *Client, s Serving) netip.AddrPort {
	t.Helper()
	var err error
	for range 20 {
		var ln net.Listener
		ln, err = net.Listen("tcp", "127.0.0.1:0")
		testutil.OK(t, err)
		addr := ln.Addr().(*net.TCPAddr).AddrPort()
		_ = ln.Close()
		if _, err = c.Listen(testContext(t), addr, s); err == nil {
			return addr
		}
	}
	t.Fatalf("Listen: %v", err)
	return netip.AddrPort{}
}

// failsFor checks that an error is one of a test, and for which reason.
func failsFor(t testing.TB, what string, err error, want probe.Reason) {
	t.Helper()
	if e, ok := errors.AsType[*probe.Error](err); !ok || e.Reason != want {
		t.Errorf("%s: got %v, want reason %s", what, err, want)
	}
}

func TestRunBetweenTwoAgents(t *testing.T) {
	far, near := start(t), start(t)
	target := listen(t, far, testToken)
	var signs atomic.Int64
	request := probe.Request{
		ID: "t", Target: target, Token: testToken,
		Spec: measurement.Spec{Kind: measurement.TCP, Flows: 2, Duration: 0.3, MaxWarmup: 0.1},
	}
	out, err := near.Run(testContext(t), request, func(measurement.Progress) { signs.Add(1) })
	testutil.OK(t, err)
	if _, measured := out.Metrics["goodput_bits_per_second"]; !measured || len(out.Flows) != 2 || signs.Load() == 0 {
		t.Errorf("metrics %v, %d flows, %d signs of life", out.Metrics, len(out.Flows), signs.Load())
	}
	request.Spec = measurement.Spec{Kind: measurement.RR, Duration: 0.1, MaxWarmup: 0.01}
	if out, err = near.Run(testContext(t), request, nil); err != nil || out.Latency == nil {
		t.Errorf("rr: %v, %v", out.Latency, err)
	}
	for _, end := range []measurement.End{out.Source, out.Destination} {
		if env := end.Environment; env["cpus"] == "" || env["hopbench"] == "" || env["host_load_average"] != "" {
			t.Errorf("environment %v", env)
		}
	}
}

// A number that is none does not end the control connection.
func TestNumbersThatJSONCannotCarry(t *testing.T) {
	near, far := net.Pipe()
	s := newServer(t.Context(), far, Options{})
	signs, answers := make(chan measurement.Progress, 1), make(chan reply, 1)
	c := NewClient(near)
	defer c.Close()
	c.mu.Lock()
	c.pending[1] = &call{progress: func(p measurement.Progress) { signs <- p }, reply: answers, over: func() {}}
	c.mu.Unlock()
	s.progress(1, measurement.Progress{Elapsed: 1, Throughput: math.NaN(), RTT: measurement.Seconds(math.Inf(1))})
	s.reply(reply{ID: 1, Outcome: &measurement.Outcome{Metrics: measurement.Metrics{"a": math.Inf(1), "b": 2}}})
	answer, ok := <-answers
	if !ok || answer.Outcome == nil {
		t.Fatalf("the connection ended: %v", c.Err())
	}
	if sign := <-signs; sign.Elapsed != 1 || sign.Throughput != 0 || sign.RTT != 0 {
		t.Errorf("sign of life %+v", sign)
	}
	if m := answer.Outcome.Metrics; len(m) != 1 || m["b"] != 2 || len(answer.Outcome.Facts) != 1 {
		t.Errorf("metrics %v, facts %q", m, answer.Outcome.Facts)
	}
}

func TestErrorsKeepTheirReason(t *testing.T) {
	far, near := start(t), start(t)
	target := listen(t, far, testToken)
	limited := serveOneFlow(t)
	spec := measurement.Spec{Kind: measurement.RR, Duration: 0.1}
	for _, c := range []struct {
		name    string
		request probe.Request
		want    probe.Reason
	}{
		{"wrong token", probe.Request{Target: target, Token: "another", Spec: spec}, probe.Unauthorized},
		{"nobody listens", probe.Request{Target: netip.MustParseAddrPort("127.0.0.1:1"), Spec: spec}, probe.Refused},
		{"beyond limits", probe.Request{Target: limited, Token: testToken, Spec: measurement.Spec{Kind: measurement.TCP, Duration: 0.1, Flows: 2}}, probe.Limit},
	} {
		_, err := near.Run(testContext(t), c.request, nil)
		failsFor(t, c.name, err, c.want)
	}
}

// serveOneFlow is a server that lets no test have more than one flow.
func serveOneFlow(t *testing.T) netip.AddrPort {
	t.Helper()
	server, err := probe.NewServer(probe.ServerOptions{Token: testToken, Limits: probe.Limits{MaxFlows: 1}})
	testutil.OK(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.OK(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return listener.Addr().(*net.TCPAddr).AddrPort()
}

// An agent that serves iperf3's clients asks no less of its own.
func TestListenIPerf3StillAsksForTheToken(t *testing.T) {
	far, near := start(t), start(t)
	target := listenAs(t, far, Serving{Token: testToken, IPerf3: true})
	request := probe.Request{ID: "t", Target: target, Token: testToken, Spec: measurement.Spec{Kind: measurement.RR, Duration: 0.1, MaxWarmup: 0.01}}
	if _, err := near.Run(testContext(t), request, nil); err != nil {
		t.Errorf("with the token: %v", err)
	}
	request.Token = "another"
	_, err := near.Run(testContext(t), request, nil)
	failsFor(t, "with another token", err, probe.Unauthorized)
}

func TestListenRefusesToServeOthersWithoutToken(t *testing.T) {
	if _, err := start(t).Listen(testContext(t), netip.MustParseAddrPort("0.0.0.0:45991"), Serving{}); err == nil {
		t.Error("an agent listens for everyone without a token")
	}
}

// A run is cancelled at the agent, not only forgotten by its coordinator.
func TestCancel(t *testing.T) {
	far, near := start(t), start(t)
	target := listen(t, far, testToken)
	ctx, cancel := context.WithCancel(testContext(t))
	request := probe.Request{Target: target, Token: testToken, Spec: measurement.Spec{Kind: measurement.RR, Duration: 3000}}
	_, err := near.Run(ctx, request, func(measurement.Progress) { cancel() })
	failsFor(t, "a test that is cancelled", err, probe.Cancelled)
	// The agents' ends, which the cleanup checks, wait for every test's goroutine.
}

// Closing the control connection in the middle ends the run at both ends.
func TestCoordinatorVanishes(t *testing.T) {
	far := start(t)
	target := listen(t, far, testToken)
	near, done := serving(Options{})
	c := NewClient(near)
	result := make(chan error, 1)
	request := probe.Request{Target: target, Token: testToken, Spec: measurement.Spec{Kind: measurement.TCP, Duration: 3000}}
	running := make(chan struct{}, 1)
	go func() {
		_, err := c.Run(context.Background(), request, func(measurement.Progress) {
			select {
			case running <- struct{}{}:
			default:
			}
		})
		result <- err
	}()
	<-running
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	failsFor(t, "a test without its agent", <-result, probe.Local)
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the agent goes on without its coordinator")
	}
	if _, err := c.Run(context.Background(), request, nil); err == nil {
		t.Error("a closed client runs a test")
	}
}

// Whatever bytes a coordinator sends, the agent ends with an error and leaves nothing.
func TestGarbageFromCoordinator(t *testing.T) {
	request := func(v any) []byte {
		frame, err := protocol.Encode(protocol.TypeAgentRequest, v)
		testutil.OK(t, err)
		return frame
	}
	for name, c := range map[string]struct {
		bytes []byte
		fails bool
	}{
		"noise":             {[]byte("GET / HTTP/1.1\r\n\r\n"), true},
		"half a header":     {[]byte{byte(protocol.TypeAgentRequest), 0, 0}, true},
		"not JSON":          {append([]byte{byte(protocol.TypeAgentRequest), 0, 0, 0, 0, 0, 0, 4}, "nope"...), true},
		"half a payload":    {request(map[string]any{"id": 1, "op": "environment"})[:20], true},
		"a reply":           {[]byte{byte(protocol.TypeAgentReply), 0, 0, 0, 0, 0, 0, 0}, true},
		"too long":          {[]byte{byte(protocol.TypeAgentRequest), 0, 0, 0, 0, 8, 0, 0}, true},
		"unknown request":   {request(map[string]any{"id": 1, "op": "format disk"}), false},
		"run of nothing":    {request(map[string]any{"id": 1, "op": "run"}), false},
		"nothing at all":    {nil, false},
		"unknown to start":  {[]byte{byte(protocol.TypeAgentStart), 0, 0, 0, 0, 0, 0, 2, '{', '}'}, false},
		"start of nothing":  {[]byte{byte(protocol.TypeAgentStart), 0, 0, 0, 0, 0, 0, 2, '[', ']'}, true},
		"prepared":          {[]byte{byte(protocol.TypeAgentPrepared), 0, 0, 0, 0, 0, 0, 2, '{', '}'}, true},
		"unknown to cancel": {[]byte{byte(protocol.TypeAgentCancel), 0, 0, 0, 0, 0, 0, 2, '{', '}'}, false},
	} {
		t.Run(name, func(t *testing.T) {
			near, done := serving(Options{})
			drained := make(chan struct{})
			go func() { defer close(drained); _, _ = io.Copy(io.Discard, near) }()
			_, _ = near.Write(c.bytes) // the agent may have ended before the last byte
			_ = near.Close()
			<-drained
			if err := <-done; (err != nil) != c.fails {
				t.Errorf("Serve = %v, want an error: %v", err, c.fails)
			}
		})
	}
}

// Held runs are prepared at once and begin together, when they are told to.
func TestRunHeld(t *testing.T) {
	far := start(t)
	target := listen(t, far, testToken)
	begin := make(chan struct{})
	const runs = 3
	prepared := make(chan int, runs)
	type result struct {
		out measurement.Outcome
		err error
	}
	results := make(chan result, runs)
	for i := range runs {
		near := start(t)
		spec := measurement.Spec{Kind: measurement.TCP, Flows: 4, Duration: 0.2, MaxWarmup: 0.05}
		if i == 0 {
			spec = measurement.Spec{Kind: measurement.RR, Duration: 0.1, MaxWarmup: 0.01}
		}
		spec.Pairs = runs
		request := probe.Request{ID: "t", Target: target, Token: testToken, Spec: spec}
		request.Prepared = func(context.Context) (time.Time, error) {
			prepared <- i
			<-begin
			return time.Time{}, nil
		}
		go func() {
			out, err := near.Run(testContext(t), request, nil)
			results <- result{out, err}
		}()
	}
	for range runs {
		<-prepared
	}
	select {
	case r := <-results:
		t.Fatalf("a run ended before it was started: %v", r.err)
	default:
	}
	told := time.Now()
	close(begin)
	for range runs {
		r := <-results
		if r.err != nil {
			t.Fatal(r.err)
		}
		if !r.out.Started.IsZero() && r.out.Started.Before(told) {
			t.Errorf("a run started at %v, before it was told to at %v", r.out.Started, told)
		}
		if len(r.out.Flows) > 0 && (len(r.out.Pairs) != 1 || len(r.out.Pairs[0].RTT) == 0) {
			t.Errorf("one of several pairs brought no round-trip times: %+v", r.out.Pairs)
		}
	}
}

// A run that is never started ends when its caller gives up, at the agent too.
func TestHeldRunIsCancelled(t *testing.T) {
	far, near := start(t), start(t)
	target := listen(t, far, testToken)
	ctx, cancel := context.WithCancel(testContext(t))
	request := probe.Request{Target: target, Token: testToken, Spec: measurement.Spec{Kind: measurement.TCP, Duration: 0.1}}
	request.Prepared = func(ctx context.Context) (time.Time, error) {
		cancel()
		<-ctx.Done()
		return time.Time{}, ctx.Err()
	}
	_, err := near.Run(ctx, request, nil)
	failsFor(t, "a test that is never started", err, probe.Cancelled)
	// Starting what has ended is nothing.
	if err := near.write(protocol.TypeAgentStart, about{ID: 1}); err != nil {
		t.Error(err)
	}
	request.Prepared = nil
	if _, err := near.Run(testContext(t), request, nil); err != nil {
		t.Errorf("the agent does not go on: %v", err)
	}
}

// A run that fails before it is prepared says so and needs no start.
func TestHeldRunFailsBeforeItsStart(t *testing.T) {
	request := probe.Request{Target: netip.MustParseAddrPort("127.0.0.1:1"), Spec: measurement.Spec{Kind: measurement.TCP, Duration: 0.1}}
	prepared := false
	request.Prepared = func(context.Context) (time.Time, error) { prepared = true; return time.Time{}, nil }
	_, err := start(t).Run(testContext(t), request, nil)
	if e, ok := errors.AsType[*probe.Error](err); !ok || e.Reason != probe.Refused || prepared {
		t.Errorf("got %v, prepared: %v", err, prepared)
	}
}
