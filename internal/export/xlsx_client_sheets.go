package export

import "errors"

// clientHeader names the columns of a client's sheet.
var clientHeader = []any{"trial", "path", "test", "passed", "pair", "destination", "at_seconds", "step_seconds", "throughput_bits_per_second", "rtt_seconds", "retransmitted_segments"}

// client writes what one client did.
func (b book) client(name string, s *sheet) error {
	out, err := b.stream(name, 0)
	if err != nil {
		return err
	}
	if err := out.fixed(clientHeader, nil); err != nil {
		return err
	}
	for _, step := range s.steps {
		row := []any{step.Trial, step.Path, step.Test, step.Passed, step.Pair, step.Destination, step.At, step.Step, step.throughput(), nil, nil}
		if step.RTT != nil {
			row[9] = nanoseconds(*step.RTT)
		}
		if step.Retransmits != nil {
			row[10] = *step.Retransmits
		}
		if err := out.put(row); err != nil {
			return err
		}
	}
	return out.Flush()
}

// aggregate writes the columns of each trial, below a chart for each test.
func (b book) aggregate(lines []*line) error {
	longest := 0
	var names, columns []any
	for _, l := range lines {
		longest = max(longest, len(l.at))
		title := l.trial
		if !l.passed {
			title += " (does not count)"
		}
		names = append(names, title, l.path)
		columns = append(columns, "at_seconds", "throughput_bits_per_second")
		for _, hop := range l.hops {
			names = append(names, "hop "+hop.name+" on "+l.path)
			columns = append(columns, "payload_bits_per_second")
		}
	}
	if err := fits(longest, len(columns), remedy); err != nil {
		return err
	}
	out, err := b.stream(aggregateSheet, chartRows)
	if err != nil {
		return err
	}
	// A drawing has to be there before the sheet is flushed.
	if err := errors.Join(out.SetColWidth(1, max(len(columns), chartColumns), columnWidth), b.charts(lines), out.heading(names), out.heading(columns)); err != nil {
		return err
	}
	for i := range longest {
		row := make([]any, 0, len(columns))
		for _, l := range lines {
			if i >= len(l.at) {
				row = append(row, make([]any, 2+len(l.hops))...)
				continue
			}
			row = append(row, l.at[i], l.throughput[i])
			for _, hop := range l.hops {
				row = append(row, hop.throughput[i])
			}
		}
		if err := out.put(row); err != nil {
			return err
		}
	}
	return out.Flush()
}
