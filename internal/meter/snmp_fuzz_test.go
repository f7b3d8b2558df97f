package meter

import (
	"bytes"
	"encoding/binary"
	"net"
	"os"
	"testing"
	"time"

	"github.com/gosnmp/gosnmp"

	"github.com/hopbench/hopbench/internal/testbed/inventory"
	"github.com/hopbench/hopbench/internal/testutil"
)

// echo is a connection to a device that answers a request of a number.
type echo struct {
	net.Conn
	answer func(number uint32) []byte
	number uint32
	left   int // answers
}

func (e *echo) Write(request []byte) (int, error) {
	p, err := new(gosnmp.GoSNMP).SnmpDecodePacket(request)
	if err == nil {
		e.number = p.RequestID
	}
	return len(request), err
}

func (e *echo) Read(into []byte) (int, error) {
	if e.left--; e.left < 0 {
		return 0, os.ErrDeadlineExceeded
	}
	return copy(into, e.answer(e.number)), nil
}

func (e *echo) SetDeadline(time.Time) error { return nil }
func (e *echo) Close() error                { return nil }

// answerOf is what a device may send.
func answerOf(t testing.TB, number uint32, values ...gosnmp.SnmpPDU) []byte {
	p := gosnmp.SnmpPacket{Version: gosnmp.Version2c, Community: "word", PDUType: gosnmp.GetResponse, RequestID: number, Variables: values}
	text, err := p.MarshalMsg()
	testutil.OK(t, err)
	return text
}

// placeholder is the number of a request in the corpus, which has four bytes.
const placeholder = 0x71727374

// No answer of a device ends anything but the reading.
func FuzzSNMP(f *testing.F) {
	f.Add(answerOf(f, placeholder, gosnmp.SnmpPDU{Name: ifName + ".7", Type: gosnmp.OctetString, Value: []byte("lan1")}))
	counters := []gosnmp.SnmpPDU{{Name: ifName + ".7", Type: gosnmp.OctetString, Value: []byte("lan1")}}
	for range 6 {
		counters = append(counters, gosnmp.SnmpPDU{Name: ifHCInOctets + ".7", Type: gosnmp.Counter64, Value: uint64(1 << 40)})
	}
	f.Add(answerOf(f, placeholder, counters...))
	f.Add([]byte{0x30, 0x84, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, index := range []string{"", "7"} {
			device := &gosnmp.GoSNMP{
				Target: "127.0.0.1", Port: 161, Transport: "udp", Version: gosnmp.Version2c, Community: "word",
				Context: t.Context(), Timeout: time.Second, MaxOids: gosnmp.MaxOids, MaxRepetitions: 25,
			}
			testutil.OK(t, device.Connect())
			_ = device.Conn.Close()
			device.Conn = &echo{left: 100, answer: func(number uint32) []byte {
				return bytes.ReplaceAll(text, binary.BigEndian.AppendUint32(nil, placeholder), binary.BigEndian.AppendUint32(nil, number))
			}}
			m := &interfaceMIB{SNMPMeter: inventory.SNMPMeter{Interface: "lan1"}, device: device, index: index, name: "lan1"}
			r, err := m.Read(t.Context())
			if err == nil && checkTotal(r.Totals.ForwardBytes) != nil {
				t.Errorf("%+v", r)
			}
		}
	})
}

// The answers of the test are really understood.
func TestSNMPAnswer(t *testing.T) {
	values := []gosnmp.SnmpPDU{{Name: ifName + ".7", Type: gosnmp.OctetString, Value: []byte("lan1")}}
	for i := range 6 {
		values = append(values, gosnmp.SnmpPDU{Name: ifHCInOctets + ".7", Type: gosnmp.Counter64, Value: uint64(i + 1)})
	}
	device := &gosnmp.GoSNMP{Target: "127.0.0.1", Port: 161, Version: gosnmp.Version2c, Community: "word", Timeout: time.Second, MaxOids: gosnmp.MaxOids}
	testutil.OK(t, device.Connect())
	testutil.OK(t, device.Conn.Close())
	device.Conn = &echo{left: 1, answer: func(number uint32) []byte { return answerOf(t, number, values...) }}
	m := &interfaceMIB{SNMPMeter: inventory.SNMPMeter{Interface: "lan1"}, device: device, index: "7", name: "lan1"}
	r, err := m.Read(t.Context())
	testutil.OK(t, err)
	if s := r.Totals; s.ForwardBytes != 1 || s.BackwardBytes != 2 || s.ForwardPackets != 3 || s.BackwardPackets != 4 || s.DroppedPackets != 5+6 {
		t.Errorf("%+v", s)
	}
}

// No answer of a device to a user ends anything but the reading either.
func FuzzSNMPv3(f *testing.F) {
	m := inventory.SNMPMeter{Interface: "lan1", User: "hopbench", AuthFile: f.TempDir() + "/auth", PrivacyFile: f.TempDir() + "/privacy"}
	for _, file := range []string{m.AuthFile, m.PrivacyFile} {
		testutil.OK(f, os.WriteFile(file, []byte("a-long-password"), 0o600))
	}
	for _, flags := range []gosnmp.SnmpV3MsgFlags{gosnmp.NoAuthNoPriv, gosnmp.AuthPriv} {
		report := gosnmp.SnmpPacket{
			Version: gosnmp.Version3, MsgFlags: flags, SecurityModel: gosnmp.UserSecurityModel, PDUType: gosnmp.Report, MsgID: placeholder, RequestID: placeholder,
			SecurityParameters: &gosnmp.UsmSecurityParameters{
				AuthoritativeEngineID: "\x80\x00\x1f\x88\x04test", AuthoritativeEngineBoots: 1, AuthoritativeEngineTime: 7, UserName: m.User,
				AuthenticationProtocol: gosnmp.SHA256, SecretKey: make([]byte, 32), PrivacyProtocol: gosnmp.AES, PrivacyKey: make([]byte, 32),
			},
			Variables: []gosnmp.SnmpPDU{{Name: ".1.3.6.1.6.3.15.1.1.4.0", Type: gosnmp.Counter32, Value: uint32(1)}},
		}
		text, err := report.MarshalMsg()
		testutil.OK(f, err)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m := &interfaceMIB{SNMPMeter: m, index: "7", name: "lan1"}
		device := &gosnmp.GoSNMP{Target: "127.0.0.1", Port: 161, Transport: "udp", Context: t.Context(), Timeout: time.Second, MaxOids: gosnmp.MaxOids}
		testutil.OK(t, m.identify(device))
		testutil.OK(t, device.Connect())
		_ = device.Conn.Close()
		device.Conn, m.device = &echo{left: 10, answer: func(uint32) []byte { return text }}, device
		if _, err := m.Read(t.Context()); err == nil {
			t.Error("an answer is believed that proves nothing")
		}
	})
}
