package meter

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/testbed/inventory"
	"github.com/hopbench/hopbench/internal/testutil"
)

func fileMeter(t *testing.T) (Meter, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fw.csv")
	m, err := newMeter(inventory.Hop{Name: "fw", CSV: &inventory.CSVMeter{File: file}}, nil)
	testutil.OK(t, err)
	return m, file
}

// What is being written, and what has taken the file's place, is no reading of it.
func TestTableOfFile(t *testing.T) {
	m, file := fileMeter(t)
	for _, c := range []struct {
		name, text string
		bytes      float64
		at         time.Time
		wrong      string
	}{
		{name: "not there", text: "", wrong: "no such file"},
		{name: "first line half", text: "time,forward_by", wrong: "first line"},
		{name: "columns only", text: "time,forward_bytes\n", wrong: "no line of figures yet"},
		{name: "half a line", text: "time,forward_bytes\n17000", wrong: "no line of figures yet"},
		{name: "a line", text: "time,forward_bytes\n1700000000.25,5\n", bytes: 5, at: time.Unix(1700000000, 250e6)},
		{name: "and half of the next", text: "time,forward_bytes\n1700000000.25,5\n1700000001,9", bytes: 5, at: time.Unix(1700000000, 250e6)},
		{name: "another order, CRLF", text: "forward_bytes, time, connections\r\n7, 2026-01-02T03:04:05.5+01:00, 3\r\n", bytes: 7, at: time.Date(2026, 1, 2, 2, 4, 5, 500e6, time.UTC)},
		{name: "a byte order mark", text: "\ufeff\"time\",\"forward_bytes\"\r\n\"1700000000\",\"6\"\r\n", bytes: 6, at: time.Unix(1700000000, 0)},
		{name: "long", text: "time,forward_bytes\n" + strings.Repeat("1700000000,1\n", 5000) + "1700000009,8\n", bytes: 8, at: time.Unix(1700000009, 0)},
		{name: "rotated", text: "time,forward_bytes\n1700000010,1\n", bytes: 1, at: time.Unix(1700000010, 0)},
		{name: "a column of nothing", text: "time,forward_byte\n1,1\n", wrong: `column "forward_byte": columns are time, forward_bytes, `},
		{name: "no time", text: "forward_bytes\n1\n", wrong: "no column time"},
		{name: "twice", text: "time,time\n1,1\n", wrong: "two columns"},
		{name: "too few", text: "time,forward_bytes\n1700000010\n", wrong: "1 fields, and there are 2 columns"},
		{name: "negative", text: "time,forward_bytes\n1700000010,-1\n", wrong: "-1 is no total"},
		{name: "no number", text: "time,forward_bytes\n1700000010,NaN\n", wrong: "NaN is no total"},
		{name: "no time of day", text: "time,forward_bytes\nyesterday,1\n", wrong: "neither a time"},
		{name: "the trial's own axis", text: "time,at_seconds\n1700000010,1\n", wrong: `column "at_seconds"`},
		{name: "a line without end", text: "time,forward_bytes\n" + strings.Repeat("1", 2*mostTail) + "\n", wrong: "one longer than"},
	} {
		if c.text != "" {
			testutil.OK(t, os.WriteFile(file, []byte(c.text), 0o600))
		}
		r, err := m.Read(t.Context())
		switch {
		case c.wrong != "":
			if err == nil || !strings.Contains(err.Error(), c.wrong) || !strings.Contains(err.Error(), file) {
				t.Errorf("%s: error %v, want %q in it and the file's name", c.name, err, c.wrong)
			}
		case err != nil:
			t.Errorf("%s: %v", c.name, err)
		case r.Totals.ForwardBytes != c.bytes || !r.Taken.Equal(c.at) || r.Timing != Dated:
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}

func TestTableOfNoFile(t *testing.T) {
	m, err := newMeter(inventory.Hop{CSV: &inventory.CSVMeter{File: t.TempDir()}}, nil)
	testutil.OK(t, err)
	if _, err := m.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a folder: %v", err)
	}
}

func FuzzTable(f *testing.F) {
	f.Add([]byte("time,forward_bytes,connections\n1700000000,5,1\n"))
	f.Add([]byte("time,\"forward_bytes\"\n2026-01-02T03:04:05Z,1e3\n1,"))
	f.Add([]byte("\n\n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parseTable(text, text)
		if err != nil {
			if r.Timing == Dated && !r.Taken.IsZero() {
				t.Errorf("%+v and %v", r, err)
			}
			return
		}
		if r.Taken.IsZero() || math.IsNaN(r.Totals.ForwardBytes) || r.Totals.ForwardBytes < 0 || r.Totals.At != 0 {
			t.Errorf("%+v", r)
		}
	})
}
