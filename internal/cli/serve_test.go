package cli

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// Both ends, as a user starts them, in one process.
func TestOneOffServesOneClient(t *testing.T) {
	r, w, err := os.Pipe()
	testutil.OK(t, err)
	defer r.Close()
	done := make(chan int, 1)
	go func() {
		done <- Main([]string{"serve", "--one-off", "--port", "0", "--bind", "127.0.0.1"}, nil, nil, w)
		w.Close()
	}()
	head := make([]byte, 4096)
	n, err := r.Read(head)
	testutil.OK(t, err)
	address := regexp.MustCompile(`serving on (127\.0\.0\.1:\d+),`).FindStringSubmatch(string(head[:n]))
	if address == nil {
		t.Fatalf("it says %q", head[:n])
	}
	var log bytes.Buffer
	copied := make(chan error, 1)
	go func() { _, err := io.Copy(&log, r); copied <- err }()
	if status, out, progress := command(t, "test", address[1], "--only", "rr", "-t", "0.1"); status != base.ExitDone {
		t.Errorf("status %d: %s%s", status, out, progress)
	}
	if status := <-done; status != base.ExitDone {
		t.Errorf("the server ends with status %d", status)
	}
	if err := <-copied; err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "rr, over tcp, 100ms: began") || strings.Count(log.String(), "\n") != 2 {
		t.Errorf("its log:\n%s", &log)
	}
}
