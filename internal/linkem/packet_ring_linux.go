package linkem

import (
	"errors"
	"fmt"
	"math/bits"
	"net"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The receive ring of a packet port. A socket's receive buffer cannot be made
// large enough inside a user namespace (SO_RCVBUFFORCE is refused, and the
// usual limit of 208 KiB holds two super-packets); a ring is not bounded by
// it. Version 2 has slots of one size; version 3 packs frames, but hands a
// block over only when it is full or after a millisecond, which is no good for a wire.
const (
	slotBytes  = maxFrameBytes + 4096 // with the ring's own header, in whole pages
	blockSlots = 14
	blockBytes = 1 << 20 // at least blockSlots slots, a power of two
	ringBlocks = 24
)

// OpenPacket makes a port of an existing network device in the network namespace
// of the calling thread: the far end of a veth pair, whose near end is where
// the traffic is. What the far end receives enters the link emulator, and what comes
// out of the link emulator is sent by the far end. The device must be up, must have no
// addresses, and is not removed with the port. Config.NoOffload has no power over
// the near end, which belongs to another namespace: to get single segments, set
// its gso_max_segs to 1 (ip link set DEV gso_max_segs 1), which makes
// the kernel cut in software.
func OpenPacket(ifname string) (*Port, error) {
	device, err := net.InterfaceByName(ifname)
	if err != nil {
		return nil, fmt.Errorf("open packet port: %w", err)
	}
	// No protocol yet: nothing is received before everything is set.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open packet socket for %s: %w", ifname, err)
	}
	if err := setUpPacket(fd, device.Index); err != nil {
		return nil, errors.Join(fmt.Errorf("open packet port %s: %w", ifname, err), unix.Close(fd))
	}
	return &Port{name: ifname, kind: Packet, fd: fd}, nil
}

func setUpPacket(fd, index int) error {
	set := func(option, value int, what string) error {
		if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, option, value); err != nil {
			return fmt.Errorf("set %s: %w", what, err)
		}
		return nil
	}
	ring := unix.TpacketReq{
		Block_size: blockBytes, Block_nr: ringBlocks,
		Frame_size: slotBytes, Frame_nr: blockSlots * ringBlocks,
	}
	for _, step := range []func() error{
		func() error { return set(unix.PACKET_VNET_HDR, 1, "PACKET_VNET_HDR") },
		func() error { return set(unix.PACKET_IGNORE_OUTGOING, 1, "PACKET_IGNORE_OUTGOING") },
		func() error { return set(unix.PACKET_QDISC_BYPASS, 1, "PACKET_QDISC_BYPASS") },
		func() error { return set(unix.PACKET_VERSION, unix.TPACKET_V2, "PACKET_VERSION") },
		func() error {
			if err := unix.SetsockoptTpacketReq(fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &ring); err != nil {
				return fmt.Errorf("make a receive ring of %d MiB: %w", blockBytes*ringBlocks>>20, err)
			}
			return nil
		},
		func() error {
			all := bits.ReverseBytes16(unix.ETH_P_ALL)
			if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: index}); err != nil {
				return fmt.Errorf("bind: %w", err)
			}
			return nil
		},
		func() error { return joinPromiscuous(fd, index) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// joinPromiscuous makes the device take frames to every address, as a wire does.
func joinPromiscuous(fd, index int) error {
	request := unix.PacketMreq{Ifindex: int32(index), Type: unix.PACKET_MR_PROMISC}
	if err := unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &request); err != nil {
		return fmt.Errorf("make promiscuous: %w", err)
	}
	return nil
}

func checkPacketSocket(fd int) error {
	for option, want := range map[int]int{
		unix.PACKET_VNET_HDR: 1,
		unix.PACKET_VERSION:  unix.TPACKET_V2,
	} {
		if got, err := unix.GetsockoptInt(fd, unix.SOL_PACKET, option); err != nil {
			return fmt.Errorf("not a packet socket: %w", err)
		} else if got != want {
			return errors.New("not a packet socket that OpenPacket made")
		}
	}
	return unix.SetNonblock(fd, true)
}

// ring is the receive ring of a packet port, mapped.
type ring struct {
	memory []byte
	slot   int    // the next to be filled by the kernel
	spare  []byte // for a frame whose VLAN tag has to be put back
}

func mapRing(fd int) (*ring, error) {
	memory, err := unix.Mmap(fd, 0, blockBytes*ringBlocks, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the receive ring: %w", err)
	}
	return &ring{memory: memory, spare: make([]byte, maxFrameBytes)}, nil
}

func (r *ring) close() error { return unix.Munmap(r.memory) }

func (r *ring) header() *unix.Tpacket2Hdr {
	at := r.slot/blockSlots*blockBytes + r.slot%blockSlots*slotBytes
	return (*unix.Tpacket2Hdr)(unsafe.Pointer(&r.memory[at]))
}

// peek returns the oldest frame with its virtio header; it stays valid until
// done. A frame that is there but cannot be used is returned empty.
func (r *ring) peek() (frame []byte, ok bool) {
	h := r.header()
	// The kernel fills the slot before it sets the status.
	status := atomic.LoadUint32(&h.Status)
	if status&unix.TP_STATUS_USER == 0 {
		return nil, false
	}
	start, end := int(h.Mac)-virtioHeaderBytes, int(h.Mac)+int(h.Snaplen)
	if start < int(unsafe.Sizeof(*h)) || end > slotBytes || h.Snaplen < h.Len {
		return nil, true
	}
	frame = unsafe.Slice((*byte)(unsafe.Pointer(h)), slotBytes)[start:end]
	if status&unix.TP_STATUS_VLAN_VALID != 0 {
		tpid := uint16(0x8100)
		if status&unix.TP_STATUS_VLAN_TPID_VALID != 0 {
			tpid = h.Vlan_tpid
		}
		return insertVLAN(r.spare, frame, tpid, h.Vlan_tci), true
	}
	return frame, true
}

// done gives the slot of peek back to the kernel.
func (r *ring) done() {
	atomic.StoreUint32(&r.header().Status, unix.TP_STATUS_KERNEL)
	r.slot++
	if r.slot == blockSlots*ringBlocks {
		r.slot = 0
	}
}
