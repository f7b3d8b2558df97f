package export

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/hopbench/hopbench/internal/report/typeset"
)

// rowsPerGroup bounds what is in memory of a Parquet file. Readers skip groups by the
// bounds of their columns.
const rowsPerGroup = 128 << 10

// Parquet writes all samples as one table.
func Parquet(w io.Writer, run Run) error {
	out := parquet.NewGenericWriter[Row](w, parquet.Compression(&zstd.Codec{}), parquet.MaxRowsPerRowGroup(rowsPerGroup),
		parquet.KeyValueMetadata("format", run.Result.Format), parquet.KeyValueMetadata("experiment", typeset.Line(run.Result.Experiment.Name)))
	batch := make([]Row, 0, 1024)
	flush := func() error {
		_, err := out.Write(batch)
		batch = batch[:0]
		return err
	}
	for row, err := range run.rows() {
		if err != nil {
			return err
		}
		if batch = append(batch, row); len(batch) == cap(batch) {
			if err := flush(); err != nil {
				return fmt.Errorf("write Parquet: %w", err)
			}
		}
	}
	if err := flush(); err != nil {
		return fmt.Errorf("write Parquet: %w", err)
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("write Parquet: %w", err)
	}
	return nil
}

// columns are the names of those of Row, the same in CSV as in Parquet.
func columns() (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Row]()) {
		name, _, _ := strings.Cut(f.Tag.Get("parquet"), ",")
		names = append(names, name)
	}
	return names
}

// CSV writes all samples as one table. What is not known is empty. The format is RFC
// 4180 with LF line ends.
func CSV(w io.Writer, run Run) error {
	out := csv.NewWriter(w)
	if err := out.Write(columns()); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	for row, err := range run.rows() {
		if err != nil {
			return err
		}
		if err := out.Write(row.csv()); err != nil {
			return fmt.Errorf("write CSV: %w", err)
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}

func (r Row) csv() []string {
	whole := func(v *int64) string {
		if v == nil {
			return ""
		}
		return strconv.FormatInt(*v, 10)
	}
	number := func(v *float64) string {
		if v == nil || math.IsNaN(*v) || math.IsInf(*v, 0) {
			return ""
		}
		return strconv.FormatFloat(*v, 'f', -1, 64) // a count of bytes has no exponent
	}
	return []string{
		typeset.Cell(r.Trial), typeset.Cell(r.Path), typeset.Cell(r.Test), strconv.FormatBool(r.Passed), strconv.Itoa(int(r.Attempt)), strconv.Itoa(int(r.Pair)),
		typeset.Cell(r.Source), typeset.Cell(r.Destination), strconv.Itoa(int(r.Flow)), number(&r.At), number(&r.Step),
		number(r.Received), number(r.RTT), whole(r.Window), whole(r.Retransmits),
	}
}
