package filter

import (
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/measurement"
)

// The interfaces of a sampler, which are no part of the topology: copies of
// packets leave through one and end at the other.
const (
	samplerDevice = "sampler"
	samplerSink   = "sampler-sink"
)

// The ring holds stamps between two readings of a node's counters: 256 packets.
const (
	stampSlotBytes  = 256
	stampBlockBytes = 4096
	stampBlocks     = 64
	stampSlots      = stampBlocks * stampBlockBytes / stampSlotBytes
)

// kernelCPUSampler estimates the kernel's work on packets in one node. Stamps that the ring
// has no room for are lost: the mean of the others stands for all.
type kernelCPUSampler struct {
	fd     int
	memory []byte // the ring of the packet socket
	slot   int    // the next to be filled by the kernel
	work   kernelWork
}

var _ Applier = KernelCPU{}

// Apply starts a sampler. Where the kernel has no way to copy packets, that is a fact
// and the node goes without.
func (k KernelCPU) Apply(n Namespace) (Counting, error) {
	w, err := k.start(n)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) {
		n.AddFact("what the kernel spends in hops is not known: %v", err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return func(received uint64, s *measurement.HopSample) error {
		s.KernelCPU = measurement.SecondsOf(w.spent(received))
		return nil
	}, nil
}

// IsSampler says whether an interface of a node is a sampler's, and no part of the
// topology.
func IsSampler(name string) bool { return name == samplerDevice || name == samplerSink }

// start puts a sampler on the node's interfaces.
func (k KernelCPU) start(n Namespace) (w *kernelCPUSampler, err error) {
	index := 0
	err = n.Within(func() error {
		if index, err = addSamplerPair(); err != nil {
			return err
		}
		w, err = openKernelCPUSampler(index)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := (PacketStamps{Interfaces: k.Interfaces, Gap: k.Gap, Device: index, Sink: samplerSink}).Apply(n.Descriptor()); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// addSamplerPair makes the sampler's interfaces in the calling thread's namespace. It
// returns the index of samplerDevice.
func addSamplerPair() (index int, err error) {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = samplerDevice
	pair := netlink.NewVeth(attributes)
	pair.PeerName = samplerSink
	if err := netlink.LinkAdd(pair); err != nil {
		return 0, fmt.Errorf("make veth pair %s: %w", samplerDevice, err)
	}
	for _, name := range []string{samplerSink, samplerDevice} {
		link, err := netlink.LinkByName(name)
		if err == nil {
			err = netlink.LinkSetUp(link)
		}
		if err != nil {
			return 0, fmt.Errorf("bring %s up: %w", name, err)
		}
		index = link.Attrs().Index
	}
	return index, nil
}

// openKernelCPUSampler receives what is sent through a device of the calling thread's
// namespace, in a ring in which the kernel writes when it was sent
// (Documentation/networking/packet_mmap.rst).
func openKernelCPUSampler(index int) (*kernelCPUSampler, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open a packet socket: %w", err)
	}
	w := &kernelCPUSampler{fd: fd}
	ring := unix.TpacketReq{Block_size: stampBlockBytes, Block_nr: stampBlocks, Frame_size: stampSlotBytes, Frame_nr: stampSlots}
	err = unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V2)
	if err == nil {
		err = unix.SetsockoptTpacketReq(fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &ring)
	}
	if err == nil {
		w.memory, err = unix.Mmap(fd, 0, stampBlockBytes*stampBlocks, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: bits.ReverseBytes16(unix.ETH_P_ALL), Ifindex: index})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a receive ring of %d KiB: %w", stampBlockBytes*stampBlocks>>10, err), w.close())
	}
	return w, nil
}

func (w *kernelCPUSampler) close() error {
	err := unix.Close(w.fd)
	if w.memory != nil {
		err = errors.Join(err, unix.Munmap(w.memory))
	}
	return err
}

// spent is what the kernel spent on packets in the node so far, of which it has
// received so many.
func (w *kernelCPUSampler) spent(packets uint64) time.Duration {
	for range stampSlots {
		slot := w.memory[w.slot*stampSlotBytes:][:stampSlotBytes]
		h := (*unix.Tpacket2Hdr)(unsafe.Pointer(&slot[0]))
		// The kernel fills the slot before it sets the status.
		if atomic.LoadUint32(&h.Status)&unix.TP_STATUS_USER == 0 {
			break
		}
		if start, end := int(h.Mac), int(h.Mac)+int(h.Snaplen); start >= int(unsafe.Sizeof(*h)) && end <= stampSlotBytes {
			if s, ok := readStamp(slot[start:end], int64(h.Sec)*int64(time.Second)+int64(h.Nsec)); ok {
				w.work.add(s)
			}
		}
		atomic.StoreUint32(&h.Status, unix.TP_STATUS_KERNEL)
		w.slot = (w.slot + 1) % stampSlots
	}
	return w.work.estimate(packets)
}
