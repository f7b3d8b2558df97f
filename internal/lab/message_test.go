package lab

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"reflect"
	"strings"
	"testing"
)

func readFrame(r io.Reader) (message, error) {
	var header [4]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return message{}, err
	}
	n, err := frameLength(header)
	if err != nil {
		return message{}, err
	}
	return decodeBody(r, n)
}

func TestFramesRoundTrip(t *testing.T) {
	topology, _, err := FromExperiment(routingAppliance())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []message{
		{Op: opReady, Environment: map[string]string{"a": "b"}},
		{Op: opReply, ID: 7, Exit: &exit{Code: 137, Signal: 9}},
		{Op: opScale, ID: 8, Scale: &scale{Nodes: []string{"a", "b"}, Instances: 3}},
		{Op: opWatch, ID: 9, Watch: &watch{Node: "a", Port: 5201}},
		{Op: opHealth, Health: &health{Node: "a", Down: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}},
		{Op: opBuild, Build: &build{Topology: topology, Executable: "/x", NodeCommand: []string{"agent"}}},
	} {
		frame, err := encodeFrame(m)
		if err != nil {
			t.Fatal(err)
		}
		got, err := readFrame(bytes.NewReader(frame))
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("got %+v, %v, want %+v", got, err, m)
		}
		if _, err := readFrame(bytes.NewReader(frame[:len(frame)-1])); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("a frame that is cut short: %v", err)
		}
	}
	if _, err := readFrame(strings.NewReader("\xff\xff\xff\xff{}")); !errors.Is(err, errFrameTooLong) {
		t.Errorf("a frame that announces 4 GiB: %v", err)
	}
}

func FuzzFrame(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02{}"))
	f.Add([]byte("\x00\x00\x00\x10{\"op\":\"reply\"}  "))
	f.Add([]byte("\x00\x80\x00\x00{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := readFrame(bytes.NewReader(data))
		if err != nil {
			return
		}
		if _, err := encodeFrame(m); err != nil {
			t.Errorf("read %+v, which cannot be written: %v", m, err)
		}
		// A topology from outside must be refused or planned, never crash.
		if m.Build != nil {
			_, _ = m.Build.Topology.Plan() // only a panic counts
		}
	})
}
