package idps

import (
	"encoding/binary"
	"net/netip"
)

// connection makes the frames of a flow; end 0 is the client.
type connection struct {
	protocol uint8
	ends     [2]netip.AddrPort
	next     [2]uint32 // sequence number of the next byte of each end
	vlan     bool
}

func newConnection(ipv6 bool) *connection {
	c := &connection{protocol: protocolTCP, next: [2]uint32{0xffff_fff0, 0x7fff_fff8}} // both wrap soon
	c.ends = [2]netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:40000"), netip.MustParseAddrPort("10.0.1.2:80")}
	if ipv6 {
		c.ends = [2]netip.AddrPort{netip.MustParseAddrPort("[fd00::1]:40000"), netip.MustParseAddrPort("[fd00::2]:80")}
	}
	return c
}

func newDatagrams() *connection {
	c := newConnection(false)
	c.protocol = protocolUDP
	return c
}

// open is the client's SYN.
func (c *connection) open() []byte {
	frame := c.segment(0, c.next[0], flagSYN, nil)
	c.next[0]++
	return frame
}

// accept is the server's answer to it, and confirm the client's to that.
func (c *connection) accept() []byte {
	frame := c.segment(1, c.next[1], flagSYN|flagACK, nil)
	c.next[1]++
	return frame
}

func (c *connection) confirm() []byte { return c.segment(0, c.next[0], flagACK, nil) }

// send is the next bytes of an end, and closing its end.
func (c *connection) send(from int, payload []byte) []byte {
	frame := c.segment(from, c.next[from], flagACK, payload)
	c.next[from] += uint32(len(payload))
	return frame
}

func (c *connection) finish(from int) []byte {
	frame := c.segment(from, c.next[from], flagACK|flagFIN, nil)
	c.next[from]++
	return frame
}

// segment is a frame with any numbers.
func (c *connection) segment(from int, sequence uint32, flags uint8, payload []byte) []byte {
	transport := make([]byte, 8)
	if c.protocol == protocolTCP {
		transport = make([]byte, 20)
		binary.BigEndian.PutUint32(transport[4:], sequence)
		if flags&flagACK != 0 {
			binary.BigEndian.PutUint32(transport[8:], c.next[1-from])
		}
		transport[12], transport[13] = 5<<4, flags
	}
	binary.BigEndian.PutUint16(transport, c.ends[from].Port())
	binary.BigEndian.PutUint16(transport[2:], c.ends[1-from].Port())
	return c.packet(from, append(transport, payload...))
}

func (c *connection) packet(from int, transport []byte) []byte {
	frame := make([]byte, virtioHeaderBytes)
	// Ethernet addresses 2:…:from.
	mac := func(end int) []byte { return []byte{2, 0, 0, 0, 0, byte(end)} }
	frame = append(append(frame, mac(1-from)...), mac(from)...)
	if c.vlan {
		frame = append(frame, 0x81, 0, 0, 7)
	}
	source, destination := c.ends[from].Addr(), c.ends[1-from].Addr()
	if source.Is4() {
		frame = append(frame, 8, 0)
		header := ipv4Header(source, destination, len(transport))
		header[9] = c.protocol
		frame = append(frame, header...)
	} else {
		frame = append(frame, 0x86, 0xdd)
		header := ipv6Header(source, destination, len(transport))
		header[6] = c.protocol
		frame = append(frame, header...)
	}
	return append(frame, transport...)
}

// renumber gives a TCP frame of IPv4 another sequence number.
func renumber(frame []byte, sequence uint32) {
	binary.BigEndian.PutUint32(frame[virtioHeaderBytes+ethernetHeaderBytes+20+4:], sequence)
}
