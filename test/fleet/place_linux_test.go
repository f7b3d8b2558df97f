package fleet

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/fleet/broker/brokertest"
	"github.com/hopbench/hopbench/internal/testbed/labtest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// Machines reach the broker, where a testbed file says nothing else, by relays before it.
const (
	joinPort  = 5203
	relayPort = 5204
)

// Of the cluster, which is begun when it is first needed and stays.
const (
	clusterTestbed = "cluster.yaml"
	clusterJoin    = "cluster.join"
	clientPort     = 4222
	routePort      = 6222
)

// place is a lab in which runs are done one after the other.
type place struct {
	*labtest.Fleet
	self  string
	disk  *disk
	nodes []*labtest.Program // of the cluster, nil before it began
	files []string           // of their configurations
	urls  string
}

// newPlace makes one, nil where that failed.
func newPlace(t *testing.T) *place {
	self, err := os.Executable()
	if err == nil {
		// Nobody else is to see what is mounted here.
		err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	}
	p := &place{self: self}
	if err == nil {
		p.disk, err = newDisk() // before the lab, which sees what is mounted by then
	}
	if err == nil {
		p.Fleet, err = labtest.NewFleet(t.Context(), []byte(experimentText), "nats-1", "nats-2", "nats-3")
	}
	if err == nil {
		err = p.command(labtest.CoordinatorNode, "nft", cutTable)
	}
	if err != nil {
		t.Error(err)
		return nil
	}
	return p
}

func (p *place) close(t *testing.T) {
	for _, n := range p.nodes {
		n.Kill()
	}
	if err := errors.Join(p.Fleet.Close(), p.disk.close()); err != nil {
		t.Error(err)
	}
}

func (p *place) start(t *testing.T, node string, args ...string) *labtest.Program {
	t.Helper()
	started, err := p.Start(node, append([]string{"env", "TMPDIR=" + p.Folder, p.self}, args...)...) // what is killed leaves its files
	testutil.OK(t, err)
	return started
}

// command runs a program in a node to its end.
func (p *place) command(node string, argv ...string) error {
	c, err := p.Start(node, argv...)
	if err != nil {
		return err
	}
	<-c.Done()
	return c.Err()
}

// startCluster starts the servers of the cluster, unless they are there, and waits until all are at work.
func (p *place) startCluster(t *testing.T) {
	t.Helper()
	if p.nodes == nil {
		var places []brokertest.Place
		for _, o := range p.Others {
			places = append(places, brokertest.Place{Clients: netip.AddrPortFrom(o.Control, clientPort), Routes: netip.AddrPortFrom(o.Control, routePort)})
		}
		var err error
		_, p.files, err = brokertest.Configure(p.Folder, clusterJoin, labtest.FleetName, places)
		testutil.OK(t, err)
		p.urls = brokertest.URLs(places)
		text, err := os.ReadFile(filepath.Join(p.Folder, labtest.TestbedFile))
		testutil.OK(t, err)
		here := "{join_file: " + labtest.JoinFile + "}"
		if !strings.Contains(string(text), here) {
			t.Fatalf("no broker in %s", text)
		}
		there := fmt.Sprintf("{join_file: %s, ca_file: cluster.pem, url: %q}", clusterJoin, p.urls)
		testutil.OK(t, os.WriteFile(filepath.Join(p.Folder, clusterTestbed), []byte(strings.Replace(string(text), here, there, 1)), 0o600))
		p.nodes = make([]*labtest.Program, len(p.Others))
		for i := range p.nodes {
			p.startNode(t, i)
		}
	}
	for _, n := range p.nodes {
		for !strings.Contains(n.Said(), natsReady) {
			select {
			case <-n.Done():
				t.Fatal(n.Err())
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
}

func (p *place) startNode(t *testing.T, i int) {
	p.nodes[i] = p.start(t, p.Others[i].Name, natsRole, p.files[i])
}

// What is said on links that are cut is lost, both ways, and nobody hears of it.
const cutTable = `table inet cut {
	set gone { type ifname; }
	chain in { type filter hook prerouting priority raw; iifname @gone drop; }
	chain out { type filter hook postrouting priority raw; oifname @gone drop; }
}`

// disk is a small one.
type disk struct {
	folder string
	full   bool
}

// diskBytes are enough for a run several times.
const diskBytes = 24 << 20

func newDisk() (*disk, error) {
	folder, err := os.MkdirTemp("", "hopbench-disk-")
	if err != nil {
		return nil, err
	}
	return &disk{folder: folder}, unix.Mount("tmpfs", folder, "tmpfs", 0, fmt.Sprint("size=", diskBytes))
}

func (d *disk) close() error {
	return errors.Join(unix.Unmount(d.folder, unix.MNT_DETACH), os.Remove(d.folder))
}

func (d *disk) filling() string { return filepath.Join(d.folder, "filling") }

// fill leaves about so many bytes.
func (d *disk) fill(left int64) error {
	f, err := os.Create(d.filling())
	if err != nil {
		return err
	}
	d.full = true
	var n int64
	for block := make([]byte, 4096); err == nil; {
		var wrote int
		wrote, err = f.Write(block)
		n += int64(wrote)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		return errors.Join(err, f.Close())
	}
	return errors.Join(f.Truncate(max(0, n-left)), f.Close())
}

func (d *disk) free() {
	d.full = false
	_ = os.Remove(d.filling()) // it may be free
}
