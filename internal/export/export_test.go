package export

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/xuri/excelize/v2"
	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/fleet/samples"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestMain(m *testing.M) {
	testutil.SeldomCollect()
	goleak.VerifyTestMain(m)
}

const (
	fleetSeats   = 3
	fleetFlows   = 4
	fleetSeconds = 5
)

// run has a trial of one pair, one of two pairs, one of a fleet, and one without series.
func run() Run {
	return Run{
		Result: &result.Result{
			Format: result.Format, Experiment: result.ExperimentInfo{Name: "x"},
			Tests: []result.TestInfo{{Name: "bulk", Spec: measurement.Spec{Kind: measurement.TCP}}},
			Paths: []result.PathInfo{{Name: "one", Source: "vm1", Dest: "vm2"}, {Name: "two"}, {Name: "fleet"}},
			Trials: []measurement.Trial{
				{ID: "b01-one-bulk", Block: 1, Order: 1, Path: "one", Test: "bulk", Gate: measurement.Gate{Passed: true}, Start: time.Unix(1000, 0), Outcome: measurement.Outcome{
					Metrics:    measurement.Metrics{"goodput_bits_per_second": 8000, "made_up_count": 3},
					Throughput: &measurement.Bins{Width: 0.5, Bytes: []float64{100, 200, 300}},
					// Of 100 bytes in each bin, with headers of 14 and 52 bytes, one packet
					// has 66 more.
					HopSeries: []measurement.HopSeries{
						{Name: "box", Instance: 1, Samples: []measurement.HopSample{{At: 0}, {At: 1.5, ForwardBytes: 300 + 3*66, ForwardPackets: 3}}},
						{Name: "box", Instance: 2, Samples: []measurement.HopSample{{At: 0}, {At: 0.5}, {At: 1, BackwardBytes: 100 + 66, BackwardPackets: 1}, {At: 1.5, BackwardBytes: 300 + 2*66, BackwardPackets: 2}}},
					},
					Flows: []measurement.Flow{{Source: "10.0.0.1:1", Destination: "10.0.0.2:2", Info: []measurement.TCPInfo{
						{At: 0.2, RTT: 0.001, CongestionWindow: 14480, Retransmits: 2}, {At: 0.4, RTT: 0.003, Retransmits: 2}, {At: 1.2, Retransmits: 5},
					}}},
				}},
				{ID: "b01-two-bulk", Block: 1, Order: 2, Path: "two", Test: "bulk", Outcome: measurement.Outcome{
					Pairs: []measurement.Pair{
						{Source: "=c1", Destination: "s1", Throughput: &measurement.Bins{Width: 1, Bytes: []float64{1000, 3000}}, RTT: []measurement.PairRTT{{At: 0.1, RTT: 0.002}, {At: 0.9, RTT: 0.004}}},
						{Source: "c2", Destination: "s2", Delay: 0.25, Throughput: &measurement.Bins{Width: 1, Bytes: []float64{4000, 4000}}},
						{Source: "c3", Destination: "s3", Error: "refused"},
					},
				}},
				{ID: "b01-fleet-bulk", Block: 1, Order: 3, Path: "fleet", Test: "long", Gate: measurement.Gate{Passed: true}, Outcome: measurement.Outcome{
					Pairs: []measurement.Pair{{Source: "f1", Destination: "g1", Throughput: &measurement.Bins{Width: 5, Bytes: []float64{1}}}, {Source: "f2", Destination: "g2"}},
				}},
				{ID: "b01-one-rr", Block: 1, Order: 4, Path: "one", Test: "rr", Gate: measurement.Gate{Passed: true}, Outcome: measurement.Outcome{Metrics: measurement.Metrics{"rtt_p50_seconds": math.NaN()}}},
			},
		},
		Blocks: func(trial string) iter.Seq2[samples.Block, error] {
			return func(yield func(samples.Block, error) bool) {
				if trial != "b01-fleet-bulk" {
					return
				}
				for seat := 1; seat <= fleetSeats; seat++ {
					for _, b := range fleet(trial, seat) {
						if !yield(b, nil) {
							return
						}
					}
				}
			}
		},
	}
}

// A client that sends no samples, as that of a system which does not know what was acknowledged,
// has the receiver's count, and all clients together have it, too.
func TestClientWithoutSamples(t *testing.T) {
	r := run()
	trial := &r.Result.Trials[2]
	trial.Pairs = append(trial.Pairs, measurement.Pair{Source: "f3", Destination: "g3"}, measurement.Pair{Source: "windows", Destination: "g4", Throughput: &measurement.Bins{Width: 1, Bytes: []float64{1000, 2000}}})
	trial.Flows = []measurement.Flow{{Source: "10.0.0.1:1", Destination: "10.0.0.2:2", Info: []measurement.TCPInfo{{At: 0.2, Retransmits: 2}}}}
	r.Result.Trials = r.Result.Trials[2:3]
	var got []string
	for _, row := range all(t, r) {
		if row.Flow == 0 || row.Pair == 0 || row.Source == "windows" {
			got = append(got, show(row))
		}
	}
	want := []string{"b01-fleet-bulk fleet long true 0 4 windows g4 0 0 1 1000   ", "b01-fleet-bulk fleet long true 0 4 windows g4 0 1 1 2000   "}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A fleet's machines are named, also where there is a single pair of them, and times are
// written to the nanosecond.
func TestMachinesAreNamed(t *testing.T) {
	r := run()
	r.Result.Testbed = result.Testbed{Kind: result.TestbedFleet, Endpoints: []result.TestbedEndpoint{{Name: "c1", Host: "h"}, {Name: "s1", Host: "h"}}}
	r.Result.Resumed = []result.Session{{Endpoints: []result.TestbedEndpoint{{Name: "c2", Host: "h"}, {Name: "s2", Host: "k"}}}}
	r.Agents = func(trial string) ([]string, error) {
		if trial == "b01-one-bulk" {
			return []string{"c1"}, nil
		}
		return []string{"f1", "f2", "f3"}, nil
	}
	r.Result.Trials[0].Destination.Host = "h"
	r.Result.Trials[0].Throughput.Width = 0.1
	rows := all(t, r)
	for _, at := range []string{"0", "0.1", "0.2"} {
		if got, want := show(rows[0]), "b01-one-bulk one bulk true 0 1 c1 s1 0 "+at+" 0.1 "; !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		rows = rows[1:]
	}
	if got := show(rows[len(rows)-1]); !strings.Contains(got, " 3 f3  4 4.9 0.1 304 0.004 ") {
		t.Errorf("the last sample is %q", got)
	}
	r.Result.Trials[0].Destination.Host = "k"
	if got := show(all(t, r)[0]); !strings.Contains(got, " c1 s2 ") {
		t.Errorf("after the run was resumed: %q", got)
	}
	r.Agents = func(string) ([]string, error) { return nil, errors.New("gone") }
	for _, err := range r.rows() {
		if err == nil {
			t.Error("the machines cannot be read, and that is no error")
		}
	}
}

// Samples of a pair that started later than the first are dated from the trial's first start, as is
// what receivers counted.
func TestSamplesOfALaterPair(t *testing.T) {
	r := run()
	r.Result.Trials[2].Pairs[1].Delay = 60
	first := map[int32]float64{}
	for _, row := range all(t, r) {
		if at, known := first[row.Pair]; row.Trial == "b01-fleet-bulk" && (!known || row.At < at) {
			first[row.Pair] = row.At
		}
	}
	if first[1] != 0 || first[2] != 60 || first[3] != 0 {
		t.Errorf("the first samples of each pair are of %v", first)
	}
}

// A damaged block of one machine is left out and told; the rows of all others are there.
func TestOneDamagedBlock(t *testing.T) {
	r := run()
	whole, blocks := len(all(t, r)), r.Blocks
	left := 0
	r.Blocks = func(trial string) iter.Seq2[samples.Block, error] {
		return func(yield func(samples.Block, error) bool) {
			for b, err := range blocks(trial) {
				if b.Seat == 2 && b.Seq == 1 {
					left = b.Samples
					b.Bytes++ // not what its samples add up to
				}
				if !yield(b, err) {
					return
				}
			}
		}
	}
	var told []string
	r.OnDamaged = func(trial, machine string) { told = append(told, trial+" "+machine) }
	if got := len(all(t, r)); left == 0 || got != whole-left {
		t.Errorf("%d rows of %d, where %d are damaged", got, whole, left)
	}
	if fmt.Sprint(told) != "[b01-fleet-bulk f2]" {
		t.Errorf("told of %v", told)
	}
}

// fleet are the blocks of a seat's flows: each carried as many bytes in a tenth of a
// second as the flow's and the seat's number say.
func fleet(trial string, seat int) (out []samples.Block) {
	coder, err := samples.NewCoder()
	if err != nil {
		panic(err)
	}
	o := samples.NewOutbox(coder, 1<<30)
	for second := range fleetSeconds {
		var all []samples.Sample
		for flow := 1; flow <= fleetFlows; flow++ {
			for tenth := range 10 {
				all = append(all, samples.Sample{At: time.Duration(10*second+tenth) * time.Second / 10, Flow: flow, Bytes: int64(100*seat + flow), RTT: time.Duration(flow) * time.Millisecond, CongestionWindow: 1448, Retransmits: 1})
			}
		}
		if err := errors.Join(o.Add(trial, seat, 1, time.Second/10, all), o.Acknowledge(0, 1<<30)); err != nil {
			panic(err)
		}
		b, _ := o.Next()
		out = append(out, b)
	}
	return out
}

func all(t *testing.T, r Run) (rows []Row) {
	t.Helper()
	for row, err := range r.rows() {
		testutil.OK(t, err)
		rows = append(rows, row)
	}
	return rows
}

func show(r Row) string { return strings.Join(r.csv(), " ") }

func TestRows(t *testing.T) {
	rows := all(t, run())
	var got []string
	for _, r := range rows[:10] {
		got = append(got, show(r))
	}
	want := []string{
		"b01-one-bulk one bulk true 0 1 vm1 vm2 0 0 0.5 100 0.002  ",
		"b01-one-bulk one bulk true 0 1 vm1 vm2 0 0.5 0.5 200   ",
		"b01-one-bulk one bulk true 0 1 vm1 vm2 0 1 0.5 300   ",
		"b01-one-bulk one bulk true 0 1 vm1 vm2 1 0 0.2  0.001 14480 2",
		"b01-one-bulk one bulk true 0 1 vm1 vm2 1 0.2 0.2  0.003  0",
		"b01-one-bulk one bulk true 0 1 vm1 vm2 1 0.4 0.8    3",
		"b01-two-bulk two bulk false 0 1 '=c1 s1 0 0 1 1000 0.003  ",
		"b01-two-bulk two bulk false 0 1 '=c1 s1 0 1 1 3000   ",
		"b01-two-bulk two bulk false 0 2 c2 s2 0 0.25 1 4000   ",
		"b01-two-bulk two bulk false 0 2 c2 s2 0 1.25 1 4000   ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("rows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	fleet := rows[10:]
	if len(fleet) != fleetSeats*fleetSeconds*fleetFlows*10 {
		t.Errorf("%d rows of the fleet", len(fleet))
	}
	if first, last := show(fleet[0]), show(fleet[len(fleet)-1]); first != "b01-fleet-bulk fleet long true 1 1 f1 g1 1 0 0.1 101 0.001 1448 1" || last != "b01-fleet-bulk fleet long true 1 3 seat 3  4 4.9 0.1 304 0.004 1448 1" {
		t.Errorf("the fleet's rows are\n%s\n…\n%s", first, last)
	}
}

func TestParquetComesBack(t *testing.T) {
	want := all(t, run())
	var file bytes.Buffer
	testutil.OK(t, Parquet(&file, run()))
	got, err := parquet.Read[Row](bytes.NewReader(file.Bytes()), int64(file.Len()))
	testutil.OK(t, err)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%d rows came back of %d", len(got), len(want))
	}
	opened, err := parquet.OpenFile(bytes.NewReader(file.Bytes()), int64(file.Len()))
	testutil.OK(t, err)
	if format, _ := opened.Lookup("format"); format != result.Format {
		t.Errorf("the file says that its format is %q", format)
	}
	for i, column := range opened.Schema().Columns() {
		if column[0] != columns()[i] {
			t.Errorf("column %d is %s, want %s", i, column, columns()[i])
		}
	}
}

func TestCSVComesBack(t *testing.T) {
	want := all(t, run())
	var file bytes.Buffer
	testutil.OK(t, CSV(&file, run()))
	got, err := csv.NewReader(&file).ReadAll()
	testutil.OK(t, err)
	if !slices.Equal(got[0], columns()) || len(got)-1 != len(want) {
		t.Fatalf("%d rows below %v, want %d", len(got)-1, got[0], len(want))
	}
	for i, row := range want {
		if !slices.Equal(got[i+1], row.csv()) {
			t.Errorf("row %d is %v", i, got[i+1])
		}
	}
}

// Every column is explained.
func TestColumnsAreDocumented(t *testing.T) {
	b, err := os.ReadFile("../../docs/data-format.md")
	testutil.OK(t, err)
	_, section, _ := strings.Cut(string(b), "\n## Exports\n")
	section, _, _ = strings.Cut(section, "\n## ")
	names := columns()
	for _, name := range clientHeader {
		names = append(names, name.(string))
	}
	for _, table := range tables(compared().Result) {
		for _, name := range append([]any{table.name}, table.header...) {
			names = append(names, name.(string))
		}
	}
	for _, name := range names {
		if !strings.Contains(section, "`"+name+"`") {
			t.Errorf("the column %s is not explained", name)
		}
	}
}

func xlsx(t *testing.T, r Run) *bytes.Reader {
	t.Helper()
	var file bytes.Buffer
	testutil.OK(t, XLSX(&file, r))
	return bytes.NewReader(file.Bytes())
}

// parts are the files of a spreadsheet by their names, read without the library that wrote them.
func parts(t *testing.T, file *bytes.Reader) map[string]string {
	t.Helper()
	archive, err := zip.NewReader(file, file.Size())
	testutil.OK(t, err)
	out := map[string]string{}
	for _, part := range archive.File {
		reader, err := part.Open()
		testutil.OK(t, err)
		text, err := io.ReadAll(reader)
		testutil.OK(t, errors.Join(err, reader.Close()))
		out[part.Name] = string(text)
	}
	return out
}

func spreadsheet(t *testing.T, r Run) *excelize.File {
	t.Helper()
	f, err := excelize.OpenReader(xlsx(t, r))
	testutil.OK(t, err)
	t.Cleanup(func() { testutil.OK(t, f.Close()) })
	return f
}

func TestSpreadsheet(t *testing.T) {
	f := spreadsheet(t, run())
	if got, want := f.GetSheetList(), []string{"aggregate", "trials", "paths", "vm1", "=c1", "c2", "f1", "f2", "seat 3"}; !slices.Equal(got, want) {
		t.Fatalf("sheets %q, want %q", got, want)
	}
	for sheet, want := range map[string][][]string{
		"vm1": {
			{"b01-one-bulk", "one", "bulk", "TRUE", "1", "vm2", "0", "0.5", "1600", "0.002"},
			{"b01-one-bulk", "one", "bulk", "TRUE", "1", "vm2", "0.5", "0.5", "3200"},
			{"b01-one-bulk", "one", "bulk", "TRUE", "1", "vm2", "1", "0.5", "4800"},
		},
		"=c1": {
			{"b01-two-bulk", "two", "bulk", "FALSE", "1", "s1", "0", "1", "8000", "0.003"},
			{"b01-two-bulk", "two", "bulk", "FALSE", "1", "s1", "1", "1", "24000"},
		},
	} {
		rows, err := f.GetRows(sheet)
		testutil.OK(t, err)
		if len(rows[0]) != len(clientHeader) || !reflect.DeepEqual(rows[1:], want) {
			t.Errorf("sheet %s: %q", sheet, rows)
		}
	}
	// Ten steps of four flows each are one row.
	rows, err := f.GetRows("f2")
	testutil.OK(t, err)
	perSecond := fmt.Sprint((4*200 + 1 + 2 + 3 + 4) * 10 * 8)
	if len(rows) != fleetSeconds+1 || !slices.Equal(rows[2], []string{"b01-fleet-bulk", "fleet", "long", "TRUE", "2", "g2", "1", "1", perSecond, "0.0025", "40"}) {
		t.Errorf("a client of the fleet: %q", rows)
	}
	rows, err = f.GetRows("trials")
	testutil.OK(t, err)
	if len(rows) != 5 || !slices.Equal(rows[0][8:], []string{"goodput_bits_per_second", "made_up_count"}) || !slices.Equal(rows[1][8:], []string{"8000", "3"}) {
		t.Errorf("trials: %q", rows)
	}
}

// All clients together carry what they carry one by one, whatever their delays.
func TestAggregate(t *testing.T) {
	sheets, err := run().sheets()
	testutil.OK(t, err)
	got, err := run().lines(sheets)
	testutil.OK(t, err)
	want := []*line{
		{"b01-one-bulk", "one", "bulk", 1, true, []float64{0, 0.5, 1}, []float64{1600, 3200, 4800}, []hopLine{{"box (2 instances)", []float64{1600, 3200, 4800}}}},
		{"b01-two-bulk", "two", "bulk", 2, false, []float64{0, 1, 2}, []float64{32000, 56000, 8000}, nil},
	}
	if len(got) != 3 || !reflect.DeepEqual(got[:2], want) {
		t.Errorf("%+v", got)
	}
	sum := 0
	for seat := 1; seat <= fleetSeats; seat++ {
		for flow := 1; flow <= fleetFlows; flow++ {
			sum += (100*seat + flow) * 10 * 8
		}
	}
	for i, v := range got[2].throughput {
		if math.Abs(v-float64(sum)) > 1e-6 || len(got[2].throughput) != fleetSeconds {
			t.Errorf("the fleet carries %v in second %d, want %d", v, i, sum)
		}
	}
}

// The charts show the columns that they are about.
func TestChartsPointAtTheirColumns(t *testing.T) {
	read := parts(t, xlsx(t, run()))
	if !strings.Contains(read["xl/worksheets/sheet1.xml"], "<drawing ") {
		t.Error("the aggregate sheet has no drawing")
	}
	f := spreadsheet(t, run())
	formula := regexp.MustCompile(`<(?:c:)?f>aggregate!\$([A-Z]+)\$(\d+)(?::\$([A-Z]+)\$(\d+))?</`)
	for chart, names := range map[string][]string{"xl/charts/chart1.xml": {"b01-one-bulk", "hop box (2 instances) on one"}, "xl/charts/chart2.xml": {"b01-fleet-bulk"}} {
		text := read[chart]
		if strings.Contains(text, "<xVal><strRef>") || !strings.Contains(text, "<xVal><numRef>") {
			t.Errorf("%s: the moments are no numbers", chart)
		}
		found := formula.FindAllStringSubmatch(text, -1)
		if len(found) != 3*len(names) {
			t.Fatalf("%s has %d references: %v", chart, len(found), found)
		}
		for i, want := range names {
			name, at, values := found[3*i], found[3*i+1], found[3*i+2]
			title, err := f.GetCellValue("aggregate", name[1]+name[2])
			testutil.OK(t, err)
			if title != want {
				t.Errorf("%s: a line is called %q, want %q", chart, title, want)
			}
			header := "throughput_bits_per_second"
			if strings.HasPrefix(want, "hop ") {
				header = "payload_bits_per_second"
			}
			for _, column := range []struct {
				ref    []string
				header string
			}{{at, "at_seconds"}, {values, header}} {
				first, err := strconv.Atoi(column.ref[2])
				testutil.OK(t, err)
				header, err := f.GetCellValue("aggregate", fmt.Sprint(column.ref[1], first-1))
				testutil.OK(t, err)
				last, err := f.GetCellValue("aggregate", column.ref[3]+column.ref[4])
				testutil.OK(t, err)
				if header != column.header || last == "" {
					t.Errorf("%s: %v is below %q and ends with %q", chart, column.ref, header, last)
				}
			}
		}
	}
}

func TestSheetNames(t *testing.T) {
	long := strings.Repeat("𝒳", 20)
	var sheets []*sheet
	for _, client := range []string{"a/b", "a:b", "Trials", "", "  ", long, long + "x", "'q'", "HISTORY"} {
		sheets = append(sheets, &sheet{client: client})
	}
	got := sheetNames(sheets)
	want := []string{"a_b", "a_b (2)", "Trials (2)", "client", "client (2)", strings.Repeat("𝒳", 15), strings.Repeat("𝒳", 13) + " (2)", "_q_", "HISTORY (2)"}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	f := excelize.NewFile()
	defer f.Close()
	for _, name := range got {
		if _, err := f.NewSheet(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestNothingToExport(t *testing.T) {
	r := run()
	r.Result.Trials = r.Result.Trials[3:]
	broken := run()
	failing := errors.New("the disk is gone")
	broken.Blocks = func(string) iter.Seq2[samples.Block, error] {
		return func(yield func(samples.Block, error) bool) { yield(samples.Block{}, failing) }
	}
	many := run()
	for i := range mostClients {
		many.Result.Trials[1].Pairs = append(many.Result.Trials[1].Pairs, measurement.Pair{Source: fmt.Sprint("many", i), Throughput: &measurement.Bins{Width: 1, Bytes: []float64{1}}})
	}
	for name, write := range map[string]func(io.Writer, Run) error{"xlsx": XLSX, "parquet": Parquet, "csv": CSV} {
		want := errNothing
		if name == "xlsx" {
			want = nil // it has what the trials came to
		}
		if err := write(io.Discard, r); !errors.Is(err, want) {
			t.Errorf("%s of nothing over time: %v", name, err)
		}
		if err := write(io.Discard, broken); !errors.Is(err, failing) {
			t.Errorf("%s of what cannot be read: %v", name, err)
		}
		err := write(io.Discard, many)
		if tooMany := err != nil && strings.Contains(err.Error(), "--format parquet"); tooMany != (name == "xlsx") {
			t.Errorf("%s of %d clients: %v", name, mostClients, err)
		}
	}
}

// tray is a sink that keeps what it is given until it is full.
type tray struct {
	room   int
	blocks []samples.Block
	most   int // blocks at a time
}

var errFull = errors.New("the tray is full")

func (k *tray) Put(_ context.Context, blocks []samples.Block) error {
	if k.blocks = append(k.blocks, blocks...); len(k.blocks) > k.room {
		return errFull
	}
	k.most = max(k.most, len(blocks))
	return nil
}

func (*tray) Place() string { return "a tray" }

func (k *tray) Close() error { return nil }

func TestIntoASink(t *testing.T) {
	r := run()
	whole := &tray{room: math.MaxInt}
	total, err := Into(t.Context(), whole, r)
	testutil.OK(t, err)
	var want []samples.Block
	for b := range r.Blocks("b01-fleet-bulk") {
		want = append(want, b)
	}
	if total != fleetSeats*fleetSeconds || !reflect.DeepEqual(whole.blocks, want) {
		t.Errorf("%d blocks, the sink has %d, want %d", total, len(whole.blocks), len(want))
	}
	if _, err := Into(t.Context(), &tray{room: 3}, r); !errors.Is(err, errFull) {
		t.Errorf("a full sink: %v", err)
	}
	// Many come in bounded portions.
	many := run()
	many.Blocks = func(string) iter.Seq2[samples.Block, error] {
		return func(yield func(samples.Block, error) bool) {
			for range mostSinkBlocks {
				if !yield(want[0], nil) {
					return
				}
			}
			for range 3 {
				if !yield(samples.Block{Data: make([]byte, mostSinkBytes)}, nil) {
					return
				}
			}
		}
	}
	portions := &tray{room: math.MaxInt}
	if total, err := Into(t.Context(), portions, many); err != nil || total != 4*(mostSinkBlocks+3) || portions.most != mostSinkBlocks || len(portions.blocks) != total {
		t.Errorf("%d blocks in portions of up to %d, %v", total, portions.most, err)
	}
	many.Result.Trials = many.Result.Trials[:1]
	many.Blocks = r.Blocks
	if _, err := Into(t.Context(), portions, many); !errors.Is(err, errNoSamples) {
		t.Errorf("a run without samples: %v", err)
	}
}
