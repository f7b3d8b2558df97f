package broker

import (
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/fleet/join"
	"github.com/hopbench/hopbench/internal/testutil"
)

// A disk without room does not keep the broker from its work, as what it has is in memory:
// neither from starting, nor from admitting an agent, nor from keeping seats.
func TestDiskIsFull(t *testing.T) {
	testutil.InNamespaces(t, syscall.CLONE_NEWNS, func(t *testing.T) {
		folder := t.TempDir()
		secret, _, err := join.Open(filepath.Join(folder, "fw.join"), "fw")
		testutil.OK(t, err)
		disk := filepath.Join(folder, "disk")
		testutil.OK(t, os.Mkdir(disk, 0o700))
		testutil.OK(t, unix.Mount("tmpfs", disk, "tmpfs", 0, "size=64k"))
		defer func() { testutil.OK(t, unix.Unmount(disk, unix.MNT_DETACH)) }()
		t.Setenv("TMPDIR", disk)
		f, err := os.Create(filepath.Join(disk, "fill"))
		testutil.OK(t, err)
		for err == nil {
			_, err = f.Write(make([]byte, 512))
		}
		testutil.OK(t, f.Close())
		b, err := Start(Options{Listen: netip.MustParseAddrPort("127.0.0.1:0"), Secret: secret, MaxAgents: 4})
		testutil.OK(t, err)
		user, password := b.Login()
		conn, err := nats.Connect(nats.DefaultURL, nats.InProcessServer(b), nats.UserInfo(user, password), nats.Timeout(time.Minute))
		testutil.OK(t, err)
		ended := make(chan struct{})
		conn.SetClosedHandler(func(*nats.Conn) { close(ended) })
		js, err := conn.JetStream(nats.MaxWait(time.Minute))
		testutil.OK(t, err)
		_, err = js.AddStream(&nats.StreamConfig{Name: "seats", Subjects: []string{"hopbench.run.seat.*"}, Storage: nats.MemoryStorage, Retention: nats.WorkQueuePolicy})
		testutil.OK(t, err)
		_, err = js.Publish("hopbench.run.seat.1", make([]byte, 16<<10))
		testutil.OK(t, err)
		// A coordinator that is killed now leaves nothing there.
		left, err := filepath.Glob(filepath.Join(disk, "hopbench-*"))
		testutil.OK(t, err)
		if len(left) > 0 {
			t.Errorf("%v is left", left)
		}
		conn.Close()
		<-ended
		testutil.OK(t, b.Close())
	})
}
