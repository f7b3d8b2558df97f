package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab/filter"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/trace"
	"github.com/hopbench/hopbench/internal/testutil"
)

// The programs that tests run in nodes, as roles of the test binary.

// traffic runs one of them.
func traffic(arguments []string) int {
	var err error
	switch role, rest := arguments[0], arguments[1:]; role {
	case "serve":
		err = serveTraffic(rest[0])
	case "connect":
		err = connectTraffic(rest[0], rest[1], rest[2], rest[3])
	case "ask":
		err = askTraffic(rest[0], rest[1])
	case "protocol":
		err = protocolTraffic(rest[0], rest[1], rest[2])
	case "trace":
		err = traceTraffic(rest[0], rest[1])
	case "hold":
		err = holdTraffic(rest[0])
	case "fill":
		err = fillTraffic(rest[0], rest[1], rest[2])
	case "greet":
		err = greet(rest[0], rest[1])
	case "meet":
		err = meet(rest[0], rest[1])
	case "stay":
		err = stay(rest[0], rest[1])
	default:
		err = fmt.Errorf("no role %q", role)
	}
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	return 0
}

// serveTraffic tells every TCP client and every datagram's sender the two
// addresses as the server sees them, and echoes lines.
func serveTraffic(address string) error {
	packets, err := net.ListenPacket("udp", address)
	if err != nil {
		return err
	}
	go func() {
		buffer := make([]byte, 100)
		for {
			_, from, err := packets.ReadFrom(buffer)
			if err != nil {
				return
			}
			if _, err := packets.WriteTo([]byte(from.String()), from); err != nil {
				return
			}
		}
	}()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			fmt.Fprintln(conn, conn.RemoteAddr(), conn.LocalAddr())
			_, _ = io.Copy(conn, conn) // the client ends it
		}()
	}
}

// connectTraffic opens many connections at once and says how many succeeded and
// what the server saw. For every line on its standard input it sends one over
// each connection and says how many came back.
func connectTraffic(source, target, count, patience string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	timeout, err := time.ParseDuration(patience)
	if err != nil {
		return err
	}
	dialer := net.Dialer{Timeout: timeout, LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
	var mu sync.Mutex
	var wg sync.WaitGroup
	var readers []*bufio.Reader
	var conns []net.Conn
	seen := "nothing"
	for range n {
		wg.Go(func() {
			conn, err := dialer.Dial("tcp", target)
			if err != nil {
				return
			}
			if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
				return
			}
			r := bufio.NewReader(conn)
			greeting, err := r.ReadString('\n')
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			conns, readers, seen = append(conns, conn), append(readers, r), strings.TrimSpace(greeting)
		})
	}
	wg.Wait()
	fmt.Println(len(conns), "connected:", seen)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		echoed := 0
		for i, conn := range conns {
			if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
				return err
			}
			fmt.Fprintln(conn, lines.Text())
			if line, err := readers[i].ReadString('\n'); err == nil && line == lines.Text()+"\n" {
				echoed++
			}
		}
		fmt.Println(echoed, "echoed")
	}
	return nil
}

// askTraffic sends datagrams until one is answered.
func askTraffic(source, target string) error {
	conn, err := net.DialUDP("udp", &net.UDPAddr{IP: net.ParseIP(source)}, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(target)))
	if err != nil {
		return err
	}
	defer conn.Close()
	for range 20 {
		if _, err := conn.Write([]byte("who am I?")); err != nil {
			return err
		}
		if err := conn.SetReadDeadline(time.Now().Add(500 * time.Millisecond)); err != nil {
			return err
		}
		answer := make([]byte, 100)
		if n, err := conn.Read(answer); err == nil {
			fmt.Println(string(answer[:n]))
			return nil
		}
	}
	return errors.New("no answer")
}

// protocolTraffic sends packets of an IP protocol that nothing speaks.
func protocolTraffic(source, target, number string) error {
	conn, err := net.Dial("ip4:"+number, target)
	if err != nil {
		return err
	}
	defer conn.Close()
	for range 5 {
		if _, err := conn.Write([]byte(source)); err != nil {
			return err
		}
	}
	return nil
}

// traceTraffic is the trace of the product.
func traceTraffic(source, target string) error {
	o, err := trace.Run(context.Background(), trace.Request{
		Spec:   measurement.Spec{Kind: measurement.Trace, Protocol: measurement.OverTCP}.Defaults(),
		Target: netip.MustParseAddrPort(target), Source: netip.MustParseAddr(source),
	}, nil)
	if err != nil {
		return err
	}
	for _, h := range o.Hops {
		if h.Address == "" {
			fmt.Println("*")
		} else {
			fmt.Println(h.Address)
		}
	}
	fmt.Println(o.Metrics["hops_count"], "hops,", o.Metrics["silent_hops_count"], "silent")
	return nil
}

// session is a role that runs during the test.
type session struct {
	in   *os.File
	from *os.File
	out  *bufio.Reader // of from
	end  func()        // and wait for it
}

// run starts a role in a node. It ends with the test at the latest.
func run(t *testing.T, l *Lab, node string, arguments ...string) *session {
	t.Helper()
	inR, inW, err := os.Pipe()
	testutil.OK(t, err)
	outR, outW, err := os.Pipe()
	testutil.OK(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, err := l.Exec(ctx, node, Command{Argv: append([]string{selfExecutable, "traffic"}, arguments...), Stdin: inR, Stdout: outW, Stderr: outW})
		if err != nil && ctx.Err() == nil {
			t.Errorf("%v in %s: %v", arguments, node, err)
		}
		inR.Close()
		outW.Close()
	}()
	s := &session{in: inW, from: outR, out: bufio.NewReader(outR)}
	s.end = sync.OnceFunc(func() {
		cancel()
		<-ended
		inW.Close()
		outR.Close()
	})
	t.Cleanup(s.end)
	return s
}

// line is the next that the role prints.
func (s *session) line(t *testing.T) string {
	t.Helper()
	testutil.OK(t, s.from.SetReadDeadline(time.Now().Add(time.Minute)))
	line, err := s.out.ReadString('\n')
	if err != nil {
		t.Fatalf("after %q: %v", line, err)
	}
	return strings.TrimSpace(line)
}

// echo has the role send a line over every connection.
func (s *session) echo(t *testing.T) string {
	t.Helper()
	if _, err := fmt.Fprintln(s.in, "hello"); err != nil {
		t.Fatal(err)
	}
	return s.line(t)
}

// role runs one to its end and returns the lines that it prints.
func role(t *testing.T, l *Lab, node string, arguments ...string) []string {
	t.Helper()
	return strings.Split(strings.TrimSpace(must(t, l, node, append([]string{selfExecutable, "traffic"}, arguments...)...)), "\n")
}

// trafficPort is where serveTraffic listens in tests.
const trafficPort = 7000

// through is a lab whose path "tested" has the hops of an experiment file, with
// a server at its destination.
func through(t *testing.T, hops ...string) (*Lab, Path) {
	t.Helper()
	built, path := layOut(t, hops...)
	l := startLab(t, built)
	listening(t, l, path.DestinationNode, "serve", netip.AddrPortFrom(path.Listen, trafficPort).String())
	return l, path
}

// listening runs a role that listens at an address.
func listening(t *testing.T, l *Lab, node string, arguments ...string) *session {
	t.Helper()
	s := run(t, l, node, arguments...)
	if line := s.line(t); line != "ready" {
		t.Fatal(line)
	}
	return s
}

// layOut is the built of an experiment with these hops on its second path.
func layOut(t *testing.T, hops ...string) (Topology, Path) {
	t.Helper()
	text := `format: hopbench.experiment/1
name: filters
endpoints: [{name: client}, {name: server}]
source: client
destination: server
baseline: direct
paths:
  - {name: direct, hops: [{type: link}]}
  - name: tested
    hops:
      - ` + strings.Join(hops, "\n      - ") + `
tests: [{name: latency, kind: rr}]
`
	e, err := experiment.Load("test.yaml", []byte(text))
	testutil.OK(t, err)
	built, paths, err := FromExperiment(e.Scaled())
	testutil.OK(t, err)
	return built, paths[1]
}

// target is where the source reaches the server of through.
func target(p Path) string { return netip.AddrPortFrom(p.Destination, trafficPort).String() }

// countersOf are those of one node.
func countersOf(t *testing.T, l *Lab, node string) NodeCounters {
	t.Helper()
	all, err := l.Counters(t.Context())
	testutil.OK(t, err)
	for _, n := range all.Nodes {
		if n.Node == node {
			return n
		}
	}
	t.Fatalf("no counters of %s", node)
	return NodeCounters{}
}

// sysctlIn reads a setting in a node.
func sysctlIn(t *testing.T, l *Lab, node, key string) string {
	t.Helper()
	return strings.TrimSpace(must(t, l, node, "cat", filter.SysctlPath(key)))
}
