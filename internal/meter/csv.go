package meter

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
)

// Bounds of what is read of a file. The last line is looked for in its tail.
const (
	mostHeaderLine = 4 << 10
	mostTail       = 16 << 10
)

// table reads the last whole line of a file that something else appends to. It is opened
// anew every time, since it may have been replaced by a younger one.
type table struct{ file string }

// Read takes the last line that is complete. Its time is by the clock of who wrote it,
// which has to be this machine's.
func (t *table) Read(context.Context) (Reading, error) {
	header, tail, err := t.load()
	if err == nil {
		var r Reading
		if r, err = parseTable(header, tail); err == nil {
			return r, nil
		}
	}
	return Reading{}, fmt.Errorf("read the last line of %s: %w", t.file, err)
}

// load gives the beginning of the file and its end, which may be the same.
func (t *table) load() (header, tail []byte, err error) {
	info, err := os.Stat(t.file)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() { // opening a pipe would wait
		return nil, nil, errors.New("it is no regular file")
	}
	f, err := os.Open(t.file)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, nil, err
	}
	if header, err = part(f, 0, mostHeaderLine); err != nil {
		return nil, nil, err
	}
	tail, err = part(f, max(0, info.Size()-mostTail), mostTail)
	return header, tail, err
}

// part reads up to so many bytes from an offset.
func part(f io.ReaderAt, from, most int64) ([]byte, error) {
	text := make([]byte, most)
	n, err := f.ReadAt(text, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return text[:n], nil
}

// parseTable reads the last whole line of tail by the names in the first line of header.
func parseTable(header, tail []byte) (Reading, error) {
	// Programs of Windows begin a file with a byte order mark.
	first, _, whole := bytes.Cut(bytes.TrimPrefix(header, []byte("\ufeff")), []byte("\n"))
	if !whole {
		return Reading{}, fmt.Errorf("its first line, which names the columns, is not there or longer than %d bytes", mostHeaderLine)
	}
	names, err := fields(first)
	if err != nil {
		return Reading{}, fmt.Errorf("its first line: %w", err)
	}
	end := bytes.LastIndexByte(tail, '\n')
	begin := bytes.LastIndexByte(tail[:max(end, 0)], '\n')
	if begin < 0 {
		return Reading{}, fmt.Errorf("it has no line of figures yet, or one longer than %d bytes", mostTail)
	}
	values, err := fields(tail[begin+1 : end])
	if err != nil {
		return Reading{}, fmt.Errorf("its last line: %w", err)
	}
	if len(values) != len(names) {
		return Reading{}, fmt.Errorf("its last line has %d fields, and there are %d columns", len(values), len(names))
	}
	return parseRow(names, values)
}

// fields are those of one line.
func fields(line []byte) ([]string, error) {
	r := csv.NewReader(bytes.NewReader(bytes.TrimRight(line, "\r")))
	r.TrimLeadingSpace = true
	all, err := r.Read()
	if errors.Is(err, io.EOF) {
		return nil, errEmpty
	}
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all, err
}

// parseRow reads a line: time, and totals by the names of the fields of a HopSample.
func parseRow(names, values []string) (r Reading, err error) {
	r.Timing = Dated
	known := columns()
	for i, name := range names {
		at := slices.Index(known, name)
		if slices.Contains(names[:i], name) {
			return r, fmt.Errorf("it has two columns %q", name)
		}
		switch {
		case name == "time":
			r.Taken, err = parseTime(values[i])
		case at < 0:
			err = fmt.Errorf("columns are time, %s", strings.Join(slices.DeleteFunc(known, func(s string) bool { return s == "" }), ", "))
		default:
			err = setColumn(reflect.ValueOf(&r.Totals).Elem().Field(at), values[i])
		}
		if err != nil {
			return Reading{}, fmt.Errorf("column %q: %w", name, err)
		}
	}
	if r.Taken.IsZero() {
		return r, errors.New("it has no column time")
	}
	return r, nil
}

// columns are the names of the fields of a HopSample in files; that of At is empty, since it
// is told by the time.
func columns() []string {
	fields := reflect.VisibleFields(reflect.TypeFor[measurement.HopSample]())
	names := make([]string, len(fields))
	for i, f := range fields {
		if f.Name != "At" {
			names[i], _, _ = strings.Cut(f.Tag.Get("json"), ",")
		}
	}
	return names
}

// setColumn sets a field, which is a float or a pointer to one.
func setColumn(field reflect.Value, text string) error {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return err
	}
	if err := checkTotal(v); err != nil {
		return err
	}
	if field.Kind() == reflect.Pointer {
		field.Set(reflect.New(field.Type().Elem()))
		field = field.Elem()
	}
	field.SetFloat(v)
	return nil
}

// parseTime reads a time of RFC 3339, or seconds since 1970.
func parseTime(text string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds > 0 && seconds < 1<<33) {
		return time.Time{}, fmt.Errorf("%q is neither a time as 2006-01-02T15:04:05Z nor seconds since 1970", text)
	}
	whole, rest := math.Modf(seconds)
	return time.Unix(int64(whole), int64(rest*1e9)), nil
}

// Interval is short: a file costs the hop nothing.
func (t *table) Interval() time.Duration { return 250 * time.Millisecond }

func (t *table) Close() error { return nil }
