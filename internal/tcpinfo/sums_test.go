package tcpinfo

import (
	"math"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
)

// flow is one of three samples, a second apart, whose kernel's times grew evenly to what
// they are at the end.
func flow(rtt []float64, cwnd []int64, final measurement.TCPInfo) measurement.Flow {
	f := measurement.Flow{Final: &final}
	for i := range rtt {
		part := measurement.Seconds(float64(i) / float64(len(rtt)-1))
		f.Info = append(f.Info, measurement.TCPInfo{
			At: measurement.Seconds(i), RTT: measurement.Seconds(rtt[i]), CongestionWindow: cwnd[i],
			ReceiveWindowTime: part * final.ReceiveWindowTime, SendBufferTime: part * final.SendBufferTime,
		})
	}
	return f
}

func TestSums(t *testing.T) {
	var s Sums
	s.Add(measurement.Flow{}, 0, 2) // of which nothing is known
	s.Add(flow([]float64{0.010, 0.020, 0.030}, []int64{1000, 2000, 3000},
		measurement.TCPInfo{Retransmits: 3, SentBytes: 800, RetransmittedBytes: 50, MinRTT: 0.010, ReceiveWindowTime: 2}), 1, 2)
	s.Add(flow([]float64{0.040, 0.050, 0.060}, []int64{4000, 5000, 6000},
		measurement.TCPInfo{Retransmits: 4, SentBytes: 200, RetransmittedBytes: 50, MinRTT: 0.008, SendBufferTime: 1}), 1, 2)
	got := measurement.Metrics{}
	s.Fill(got)
	want := measurement.Metrics{
		"retransmitted_segments":          7,
		"receive_window_limited_fraction": 0.5,  // one flow all the time, the other never
		"send_buffer_limited_fraction":    0.25, // one flow half of the time
		"tcp_efficiency_fraction":         0.9,  // 100 of 1000 bytes again
		"tcp_rtt_mean_seconds":            0.04, // of the samples from 1 s on
		"congestion_window_bytes":         4000,
		"buffer_delay_fraction":           4, // 40 ms, where one socket saw 8
	}
	for name, v := range want {
		if math.Abs(got[name]-v) > 1e-12 {
			t.Errorf("%s is %v, want %v", name, got[name], v)
		}
	}
	if len(got) != len(want) {
		t.Errorf("the metrics are %v", got)
	}
}

// What nothing is known of is not said.
func TestSumsOfWhatIsNotKnown(t *testing.T) {
	var none, early Sums
	got := measurement.Metrics{}
	none.Add(measurement.Flow{}, 0, 1)
	if none.Fill(got); len(got) != 0 {
		t.Errorf("of no flow: %v", got)
	}
	early.Add(flow([]float64{0.01, 0.01}, []int64{1, 1}, measurement.TCPInfo{}), 5, 6) // no sample, no byte
	early.Fill(got)
	for _, name := range []string{"tcp_efficiency_fraction", "tcp_rtt_mean_seconds", "congestion_window_bytes", "buffer_delay_fraction"} {
		if v, ok := got[name]; ok {
			t.Errorf("%s is %v", name, v)
		}
	}
}

// The few samples that are kept of each of very many flows leave out the beginning and the end
// of a test: of those, START and the last sample tell.
func TestSharesOfFewSamples(t *testing.T) {
	limited := func(at measurement.Seconds) measurement.TCPInfo {
		return measurement.TCPInfo{At: at, ReceiveWindowTime: at, SendBufferTime: at / 4}
	}
	final := limited(33)
	for name, info := range map[string][]measurement.TCPInfo{
		"two": {limited(8), limited(24)}, "one": {limited(16)}, "none": nil, "all": {{}, limited(16), final},
	} {
		var s Sums
		s.Add(measurement.Flow{Final: &final, Info: info}, 3, 33)
		got := measurement.Metrics{}
		s.Fill(got)
		if receive, buffer := got["receive_window_limited_fraction"], got["send_buffer_limited_fraction"]; math.Abs(receive-1) > 1e-12 || math.Abs(buffer-0.25) > 1e-12 {
			t.Errorf("%s: %v and %v of the time, want 1 and 0.25", name, receive, buffer)
		}
	}
}
