package idps

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/testutil"
)

// benchmarkText reads like the web: requests, headers, prose and markup, and
// holds nothing that a rule looks for.
func benchmarkText(n int) []byte {
	r := rand.New(rand.NewPCG(1, 5))
	words := strings.Fields(`the a network path carries packets from one host to another and each hop on the way takes its time to
		forward them measured in microseconds where buffers fill latency grows while throughput stays content-type text/html charset=utf-8
		accept-encoding gzip deflate <p> </p> <div class="row"> </div> <a href="/docs/index.html"> </a> User-Agent: Mozilla/5.0 (X11; Linux x86_64)
		Host: www.example.com Cookie: session=4f2a6c Cache-Control: no-cache GET /images/logo.png HTTP/1.1 POST /api/v1/items 200 OK {"id": 17, "name":
		"router", "tags": ["lab", "linux"]} select the best route union of both sets drop a packet or exec the plan script of the day system under test`)
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(words[r.IntN(len(words))])
		b.WriteByte(" \r\n"[[]int{0, 0, 0, 0, 0, 0, 2}[r.IntN(7)]])
	}
	return []byte(b.String()[:n])
}

func benchmarkRandom(n int) []byte {
	data := make([]byte, n)
	random := rand.NewChaCha8([32]byte{5})
	for i := range data {
		data[i] = byte(random.Uint64())
	}
	return data
}

// BenchmarkInspect is the inspection of one TCP stream with the built-in
// rules, frame by frame: what a core does per second is its MB/s.
func BenchmarkInspect(b *testing.B) {
	for _, payload := range []struct {
		name string
		data []byte
	}{{"random", benchmarkRandom(8 << 20)}, {"text", benchmarkText(8 << 20)}} {
		for _, size := range []int{1448, 44 * 1448} {
			for _, mode := range Modes() {
				b.Run(fmt.Sprintf("%s/%d/%s", payload.name, size, mode), func(b *testing.B) {
					i, err := New(Builtin(), mode)
					testutil.OK(b, err)
					c := newConnection(false)
					i.Inspect(0, c.open())
					var frames [][]byte
					for data := payload.data; len(data) >= size; data = data[size:] {
						frames = append(frames, c.send(0, data[:size]))
					}
					sequence := c.next[0] - uint32(len(frames)*size)
					b.SetBytes(int64(size))
					b.ReportAllocs()
					runtime.GC() // of the preparation, in whose time it is
					end := perCore(b)
					for n := 0; b.Loop(); n++ {
						frame := frames[n%len(frames)]
						renumber(frame, sequence)
						sequence += uint32(size)
						if pass, _, _ := i.Inspect(0, frame); !pass {
							b.Fatal("harmless traffic is denied")
						}
					}
					end(float64(b.N) * float64(size))
					if got := i.Counters(); got.Alerts > 0 || mode != Off && got.Bytes < uint64(b.N)*uint64(size) {
						b.Fatalf("%+v: %+v", got, i.Alerts())
					}
				})
			}
		}
	}
}
