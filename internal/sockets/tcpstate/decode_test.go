package tcpstate

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testutil"
)

// tcpInfoV1 is TCP_INFO_v1 of mstcpip.h field by field: encoding/binary adds no
// padding, so the padding that the C compiler adds is written out.
type tcpInfoV1 struct {
	State, Mss                              uint32
	ConnectionTimeMs                        uint64
	TimestampsEnabled                       bool
	_                                       [3]byte
	RttUs, MinRttUs, BytesInFlight, Cwnd    uint32
	SndWnd, RcvWnd, RcvBuf                  uint32
	BytesOut, BytesIn                       uint64
	BytesReordered, BytesRetrans            uint32
	FastRetrans, DupAcksIn, TimeoutEpisodes uint32
	SynRetrans                              byte
	_                                       [3]byte
	SndLimTransRwin, SndLimTimeRwin         uint32
	SndLimBytesRwin                         uint64
	SndLimTransCwnd, SndLimTimeCwnd         uint32
	SndLimBytesCwnd                         uint64
	SndLimTransSnd, SndLimTimeSnd           uint32
	SndLimBytesSnd                          uint64
}

// tcpConnectionInfo is struct tcp_connection_info of xnu's netinet/tcp.h.
type tcpConnectionInfo struct {
	State, SendScale, ReceiveScale, _                             uint8
	Options, Flags, RTO, MaxSeg, SSThresh, Cwnd, SndWnd, SndBytes uint32
	RcvWnd, RTTCur, SRTT, RTTVar, FastOpen                        uint32
	TxPackets, TxBytes, TxRetransmitBytes                         uint64
	RxPackets, RxBytes, RxOutOfOrderBytes, TxRetransmitPackets    uint64
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	b, err := binary.Append(nil, binary.LittleEndian, v)
	testutil.OK(t, err)
	return b
}

func TestWindowsTCPInfo(t *testing.T) {
	full := encode(t, tcpInfoV1{
		State: 4, Mss: 1460, ConnectionTimeMs: 1, RttUs: 20_000, MinRttUs: 15_000, BytesInFlight: 2920, Cwnd: 14600,
		SndWnd: 65535, RcvWnd: 2, RcvBuf: 3, BytesOut: 4, BytesIn: 5, BytesReordered: 6, BytesRetrans: 2921,
		FastRetrans: 7, SndLimTransRwin: 8, SndLimTimeRwin: 250, SndLimTimeCwnd: 9,
	})
	want := measurement.TCPInfo{
		At: 1, RTT: 0.02, MinRTT: 0.015, CongestionWindow: 14600, SendWindow: 65535, MSS: 1460,
		Retransmits: 3, InFlight: 2920, ReceiveWindowTime: 0.25,
	}
	if len(full) != windowsTCPInfo1Bytes {
		t.Errorf("version 1 has %d bytes, want %d", len(full), windowsTCPInfo1Bytes)
	}
	if got, err := windowsTCPInfo(full, time.Second); err != nil || got != want {
		t.Errorf("version 1: %+v, %v\nwant %+v", got, err, want)
	}
	want.ReceiveWindowTime = 0
	if got, err := windowsTCPInfo(full[:windowsTCPInfo0Bytes], time.Second); err != nil || got != want {
		t.Errorf("version 0: %+v, %v\nwant %+v", got, err, want)
	}
	fresh := encode(t, tcpInfoV1{Mss: 1460, MinRttUs: 1<<32 - 1})
	if got, err := windowsTCPInfo(fresh, 0); err != nil || got != (measurement.TCPInfo{MSS: 1460}) {
		t.Errorf("no sample yet: %+v, %v", got, err)
	}
	if _, err := windowsTCPInfo(full[:windowsTCPInfo0Bytes-1], 0); err == nil {
		t.Error("a short answer was understood")
	}
}

func TestDarwinTCPInfo(t *testing.T) {
	b := encode(t, tcpConnectionInfo{
		MaxSeg: 1448, SSThresh: 1, Cwnd: 28960, SndWnd: 131072, SndBytes: 2, RcvWnd: 3, RTTCur: 4, SRTT: 30, RTTVar: 5,
		FastOpen: 6, TxPackets: 7, TxBytes: 8, TxRetransmitBytes: 9, RxPackets: 10, TxRetransmitPackets: 11,
	})
	want := measurement.TCPInfo{
		At: 2, RTT: 0.03, RTTVariation: 0.005, CongestionWindow: 28960, SendWindow: 131072, MSS: 1448, Retransmits: 11,
	}
	if len(b) != darwinTCPInfoBytes {
		t.Errorf("%d bytes, want %d", len(b), darwinTCPInfoBytes)
	}
	if got, err := darwinTCPInfo(b, 2*time.Second); err != nil || got != want {
		t.Errorf("%+v, %v\nwant %+v", got, err, want)
	}
	if _, err := darwinTCPInfo(b[:len(b)-1], 0); err == nil {
		t.Error("a short answer was understood")
	}
}

func FuzzForeign(f *testing.F) {
	f.Add(encode(f, tcpInfoV1{Mss: 1460, BytesRetrans: 1<<32 - 1}))
	f.Add(encode(f, tcpConnectionInfo{MaxSeg: 1448}))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, decode := range []func([]byte, time.Duration) (measurement.TCPInfo, error){windowsTCPInfo, darwinTCPInfo} {
			info, err := decode(b, time.Second)
			if err == nil && (info.MSS < 0 || info.Retransmits < 0 || info.RTT < 0 || info.InFlight < 0 || info.MinRTT < 0) {
				t.Errorf("%x: %+v", b, info)
			}
		}
	})
}
