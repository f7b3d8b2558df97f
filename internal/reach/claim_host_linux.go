package reach

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/printable"
)

// claimed is an abstract address (unix(7)): it is of one network namespace, has no file, and
// ends with its process.
var claimed = &net.UnixAddr{Net: "unix", Name: "@hopbench-agent"}

const (
	// answerTime is how long the holder of a host may take to say who it works for.
	answerTime = time.Second
	// maxCoordinator bounds, in bytes, what one says of itself.
	maxCoordinator = 200
)

// ClaimHost keeps other coordinators whose agents ssh starts from this host's network, where
// two would measure each other's load, until it is released. The error names the one that
// has it. Both ends of one coordinator may be here.
func ClaimHost(ctx context.Context, coordinator string) (release func(), err error) {
	for began := time.Now(); ; {
		l, err := net.ListenUnix("unix", claimed)
		switch {
		case err == nil:
			return tellHolder(ctx, l, coordinator), nil
		case !errors.Is(err, syscall.EADDRINUSE):
			return func() {}, nil // a system that gives no such sockets keeps nobody from measuring
		}
		if time.Since(began) > handOver { // what the last one did here takes a moment to end
			holder, process := askHolder()
			switch holder {
			case "":
				return nil, fmt.Errorf("an agent on this host (%s) does not say which coordinator it works for, which may be this one: it is stopped; let it go on with SIGCONT, or end it", process)
			case coordinator:
				return func() {}, nil
			}
			return nil, fmt.Errorf("another coordinator measures with this host (%s): try again when that has ended, or end it",
				printable.Line(holder, maxCoordinator))
		}
		if !pause(ctx) {
			return nil, context.Cause(ctx)
		}
	}
}

// tellHolder tells whoever asks who has this host, until it is released.
func tellHolder(ctx context.Context, l *net.UnixListener, coordinator string) (release func()) {
	ctx, stop := context.WithCancel(ctx)
	var telling sync.WaitGroup
	telling.Go(func() {
		for {
			conn, err := l.AcceptUnix()
			switch {
			case errors.Is(err, net.ErrClosed):
				return
			case err != nil: // such as no descriptor left: who asks hears nothing
				if !pause(ctx) {
					return
				}
				continue
			}
			_ = conn.SetDeadline(time.Now().Add(answerTime))
			_, _ = fmt.Fprintln(conn, coordinator)
			_ = conn.Close()
		}
	})
	return func() {
		stop()
		_ = l.Close()
		telling.Wait()
	}
}

// askHolder is who has this host, as far as it says so, and the process of its agent.
func askHolder() (holder, process string) {
	process = "of an unknown process"
	conn, err := net.DialTimeout("unix", claimed.Name, answerTime)
	if err != nil {
		return "", process
	}
	defer conn.Close()
	if raw, err := conn.(*net.UnixConn).SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			if peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil && peer.Pid > 0 { // 0 is in a pid namespace that is not seen from here
				process = fmt.Sprintf("process %d", peer.Pid)
			}
		})
	}
	_ = conn.SetDeadline(time.Now().Add(answerTime))
	line, _ := bufio.NewReader(io.LimitReader(conn, maxCoordinator)).ReadString('\n')
	return line[:max(0, len(line)-1)], process
}
