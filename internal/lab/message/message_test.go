package message

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/idps"
	"github.com/hopbench/hopbench/internal/lab/labtest"
	"github.com/hopbench/hopbench/internal/lab/layout"
	"github.com/hopbench/hopbench/internal/lab/plan"
	"github.com/hopbench/hopbench/internal/lab/topology"
	"github.com/hopbench/hopbench/internal/testutil"
)

func readFrame(r io.Reader) (Message, error) {
	var header [4]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return Message{}, err
	}
	n, err := frameLength(header)
	if err != nil {
		return Message{}, err
	}
	return decodeBody(r, n)
}

func TestFramesRoundTrip(t *testing.T) {
	built, _, err := layout.FromExperiment(labtest.RoutingAppliance())
	testutil.OK(t, err)
	for _, test := range []struct {
		verb Verb
		body any
	}{
		{Ready, State{Environment: map[string]string{"a": "b"}}},
		{Reply, Exit{Code: 137}},
		{Scale, ScaleRequest{Nodes: []string{"a", "b"}, Instances: 3}},
		{Health, HealthReport{Node: "a", Down: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}},
		{Build, BuildRequest{Topology: built, Executable: "/x", NodeCommand: []string{"agent"}}},
		{Nodes, nil},
	} {
		m, err := New(test.verb, 7, test.body)
		testutil.OK(t, err)
		frame, err := encodeFrame(m)
		testutil.OK(t, err)
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

// A topology with several of the largest rule files is a message.
func TestRuleFilesFit(t *testing.T) {
	text := strings.Repeat(`"`, idps.MaxFileBytes) // each is two bytes in JSON
	m, err := New(Build, 0, BuildRequest{Topology: topology.Topology{RuleFiles: map[string]string{"a": text, "b": text, "c": text}}})
	testutil.OK(t, err)
	if _, err := encodeFrame(m); err != nil {
		t.Error(err)
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
		if b, err := Body[BuildRequest](m); err == nil {
			_, _ = plan.Of(b.Topology) // only a panic counts
		}
	})
}
