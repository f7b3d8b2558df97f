package endpoint

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/testutil"
)

// A port that the user may not have is not said to be another program's.
func TestListenAtAPortOfRoot(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_unprivileged_port_start")
	if err != nil || strings.TrimSpace(string(text)) == "0" {
		t.Skip("any user may have any port here")
	}
	server, err := probe.NewServer(probe.ServerOptions{Open: true})
	testutil.OK(t, err)
	folder := t.TempDir()
	token := filepath.Join(folder, "token")
	testutil.OK(t, errors.Join(os.Chmod(filepath.Dir(folder), 0o755), os.WriteFile(token, []byte("a token that another user reads"), 0o644)))
	refused := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with its goroutine
		if os.Geteuid() == 0 {
			const nobody = 65534
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
				refused <- errno
				return
			}
		}
		_, err := listen(t.Context(), server, "127.0.0.1", 1)
		refused <- err
		refused <- serveAgent(t.Context(), io.Discard, agentFlags{listen: "127.0.0.1:1", tokenFile: token}, agent.Options{})
	}()
	for _, choose := range []string{"--port", "--listen"} {
		if err := <-refused; err == nil || !strings.Contains(err.Error(), "this user may not have that port, choose one from 1024 up with "+choose) {
			t.Errorf("%v", err)
		}
	}
}
