package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/cable"
	"github.com/hopbench/hopbench/internal/testutil"
)

// needLab skips where no lab can be made, with the reason that Start gives.
func needLab(t testing.TB) {
	t.Helper()
	l, err := Start(t.Context(), Topology{Nodes: []Node{{Name: "a"}}}, Options{})
	if err != nil {
		testutil.Need(t, false, fmt.Sprintf("a machine on which labs can be made: %v", err))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func needProgram(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		_, err := lookPath(name, os.Environ(), "/")
		testutil.Need(t, err == nil, "the program "+name)
	}
}

func startLab(t testing.TB, topology Topology) *Lab {
	t.Helper()
	needLab(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	l, err := Start(ctx, topology, Options{NodeCommand: []string{"echo-agent"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if said := l.Stderr(); said != "" {
			t.Logf("the lab's processes said: %s", said)
		}
	})
	return l
}

// output runs a program in a node and returns what it printed, on both
// outputs, and its exit status.
func output(t testing.TB, l *Lab, node string, argv ...string) (string, int) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	printed := make(chan string, 1)
	go func() {
		b, err := io.ReadAll(r)
		if err != nil {
			b = append(b, err.Error()...)
		}
		printed <- string(b)
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	code, err := l.Exec(ctx, node, Command{Argv: argv, Stdout: w, Stderr: w})
	w.Close()
	text := <-printed
	if err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, text)
	}
	return text, code
}

// must is output of a program that has to succeed.
func must(t testing.TB, l *Lab, node string, argv ...string) string {
	t.Helper()
	text, code := output(t, l, node, argv...)
	if code != 0 {
		t.Fatalf("%v in %s ended with status %d:\n%s", argv, node, code, text)
	}
	return text
}

// chain is source - router-1 - … - router-n - destination.
//
//	source ──10.0.0.0/30── router-1 ──10.0.1.0/30── … ── destination
func chain(routers int, c *cable.Config) Topology {
	t := Topology{Nodes: []Node{{Name: "source", Agent: true, CongestionControl: "cubic"}}}
	previous := "source"
	for i := range routers + 1 {
		next := fmt.Sprintf("router-%d", i+1)
		if i == routers {
			next = "destination"
			t.Nodes = append(t.Nodes, Node{Name: next, Agent: true, CongestionControl: "cubic"})
		} else {
			t.Nodes = append(t.Nodes, Node{Name: next, Forward: true})
		}
		t.Links = append(t.Links, Link{
			A:     End{Node: previous, Interface: "right", Address: address(0, i, 1)},
			B:     End{Node: next, Interface: "left", Address: address(0, i, 2)},
			Cable: c,
		})
		previous = next
	}
	return t
}

func TestAgentsAnswer(t *testing.T) {
	l := startLab(t, chain(1, nil))
	for _, node := range []string{"source", "destination"} {
		conn, err := l.Control(node)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(conn, "hello from", node)
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || line != "hello from "+node+"\n" {
			t.Errorf("%s answered %q, %v", node, line, err)
		}
	}
	if _, err := l.Control("router-1"); err == nil {
		t.Error("a router has no agent, but Control gave a connection")
	}
	if err := l.Err(); err != nil {
		t.Errorf("a lab that is well says %v", err)
	}
}

func TestReachesThroughRouters(t *testing.T) {
	needProgram(t, "ping", "ip")
	for _, test := range []struct {
		name  string
		cable *cable.Config
	}{
		{"veth", nil},
		{"cable", &cable.Config{Forward: cable.Direction{Delay: time.Millisecond}, Backward: cable.Direction{Delay: time.Millisecond}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := startLab(t, chain(3, test.cable))
			text := must(t, l, "source", "ping", "-n", "-c", "2", "-i", "0.05", "-W", "2", "10.0.3.2")
			if !strings.Contains(text, "ttl=61") {
				t.Errorf("three routers leave a TTL of 61 of 64, but ping says:\n%s", text)
			}
			must(t, l, "router-2", "ping", "-n", "-c", "1", "-W", "2", "10.0.0.1")

			var addresses []struct {
				IfName    string `json:"ifname"`
				MTU       int    `json:"mtu"`
				OperState string `json:"operstate"`
				AddrInfo  []struct {
					Family    string `json:"family"`
					Local     string `json:"local"`
					PrefixLen int    `json:"prefixlen"`
				} `json:"addr_info"`
			}
			if err := json.Unmarshal([]byte(must(t, l, "router-1", "ip", "-j", "address")), &addresses); err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, a := range addresses {
				for _, i := range a.AddrInfo {
					got[a.IfName] = fmt.Sprintf("%s/%d mtu %d %s", i.Local, i.PrefixLen, a.MTU, i.Family)
				}
				if a.OperState == "DOWN" { // a TAP device's is UNKNOWN
					t.Errorf("%s is down although the lab is ready", a.IfName)
				}
			}
			if got["left"] != "10.0.0.2/30 mtu 1500 inet" || got["right"] != "10.0.1.1/30 mtu 1500 inet" {
				t.Errorf("addresses of router-1: %v", got)
			}
		})
	}
}

func TestUnprivileged(t *testing.T) {
	testutil.Need(t, os.Geteuid() == 0, "root, to become someone else")
	needProgram(t, "setpriv")
	binary := t.TempDir() + "/lab.test"
	self, err := os.ReadFile(selfExecutable)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(binary, self, 0o755); err != nil {
		t.Fatal(err)
	}
	for dir := binary[:strings.LastIndexByte(binary, '/')]; dir != "/tmp" && dir != "/"; dir = dir[:strings.LastIndexByte(dir, '/')] {
		if dir == "" || dir == os.TempDir() {
			break
		}
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", binary,
		"-test.run=^(TestAgentsAnswer|TestReachesThroughRouters)$", "-test.v")
	cmd.Dir = "/"
	text, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(text), "SKIP") && os.Getenv(testutil.NoSkipEnv) == "1" {
		t.Fatalf("as user 65534: %v\n%s", err, text)
	}
	if !strings.Contains(string(text), "--- PASS: TestReachesThroughRouters") {
		t.Logf("as user 65534:\n%s", text)
	}
}
