package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/measurement"
)

// instrument is a property of a hop in several settings, which hopbench and a
// witness measure side by side.
type instrument struct {
	design design
	metric string
	unit   string
	per    float64 // of the unit
	// planted is what each path but the baseline must show, in the metric's unit.
	planted map[string]float64
	// difference says that what the baseline shows is taken off.
	difference bool
	// witness measures the same of a path; nil for none. Its name is by.
	by      string
	witness func(ctx context.Context, b *bed, p lab.Path) (float64, error)
	// counted is what the hop counted itself during the trial; nil for nothing.
	counted func(t measurement.Trial) (float64, bool)
}

func allInstruments() []instrument {
	delay := instrument{
		design: design{name: "delay", tests: []test{{"rr", "kind: rr, protocol: udp, duration: 300ms, max_warmup: 20ms"}}},
		metric: "rtt_p50_seconds", unit: "µs", per: 1e-6, difference: true, by: "ping", witness: pinged, planted: map[string]float64{},
	}
	delay.add("plain", "{type: link, delay: 50us}", 0)
	for _, us := range []int{100, 1000, 10_000} {
		delay.add(fmt.Sprintf("us-%d", us), fmt.Sprintf("{type: link, delay: %dus}", 50+us), 2e-6*float64(us))
	}
	rate := instrument{
		design: design{name: "rate", tests: []test{{"tcp", "kind: tcp, duration: 500ms, max_warmup: 300ms"}}},
		metric: "goodput_bits_per_second", unit: "Mbit/s", per: 1e6, by: "iperf3", witness: iperf3, planted: map[string]float64{},
	}
	rate.add("plain", "{type: link, delay: 500us}", 0)
	for _, mbit := range []int{10, 50, 200} {
		// A segment of 1448 bytes of payload is a frame of 1514.
		rate.add(fmt.Sprintf("mbit-%d", mbit), fmt.Sprintf("{type: link, delay: 500us, rate: %dMbit}", mbit), 1e6*float64(mbit)*1448/1514)
	}
	loss := instrument{
		design: design{name: "loss", tests: []test{{"udp", "kind: udp, rate: 40Mbit, duration: 500ms, max_warmup: 20ms"}}},
		metric: "loss_fraction", unit: "%", per: 0.01, counted: droppedByHop, planted: map[string]float64{},
	}
	loss.add("plain", "{type: router, name: hop, delay: 500us}", 0)
	for _, thousandths := range []int{5, 30, 100} {
		loss.add(fmt.Sprintf("loss-%d", thousandths), fmt.Sprintf("{type: router, name: hop, delay: 500us, loss: %g%%}", float64(thousandths)/10), float64(thousandths)/1000)
	}
	reorder := instrument{
		design: design{name: "reorder", tests: []test{{"udp", "kind: udp, rate: 40Mbit, duration: 500ms, max_warmup: 20ms"}}},
		metric: "reordered_fraction", unit: "%", per: 0.01, planted: map[string]float64{},
	}
	reorder.add("plain", "{type: link, delay: 5ms}", 0)
	for _, percent := range []int{1, 5} {
		reorder.add(fmt.Sprintf("reorder-%d", percent), fmt.Sprintf("{type: link, delay: 5ms, reorder: %d%%}", percent), float64(percent)/100)
	}
	return []instrument{delay, rate, loss, reorder}
}

func (i *instrument) add(name, hops string, planted float64) {
	i.design.paths = append(i.design.paths, path{name, hops})
	if planted > 0 {
		i.planted[name] = planted
	}
}

// droppedByHop is the share that the hop says it dropped of the packets that came
// to its link towards the destination.
func droppedByHop(t measurement.Trial) (share float64, ok bool) {
	for _, h := range t.HopSeries {
		if n := len(h.Samples); n > 0 {
			last := h.Samples[n-1]
			if last.ForwardPackets > 0 {
				return last.DroppedPackets / last.ForwardPackets, true
			}
		}
	}
	return 0, false
}

var pingTime = regexp.MustCompile(`time=([\d.]+) ms`)

// pinged is the median round-trip time by ping(8), in seconds.
func pinged(ctx context.Context, b *bed, p lab.Path) (float64, error) {
	out, err := b.exec(ctx, p.SourceNode, "ping", "-n", "-c", "25", "-i", "0.01", "-I", p.Source.String(), p.Destination.String())
	if err != nil {
		return 0, err
	}
	var times []float64
	for _, found := range pingTime.FindAllStringSubmatch(out, -1) {
		ms, err := strconv.ParseFloat(found[1], 64)
		if err != nil {
			return 0, fmt.Errorf("read what ping printed: %w", err)
		}
		times = append(times, ms/1000)
	}
	if len(times) == 0 {
		return 0, fmt.Errorf("ping printed no round-trip times: %q", out)
	}
	return statistics.Median(times), nil
}

// iperf3 is the goodput of one flow by iperf3, in bit/s.
func iperf3(ctx context.Context, b *bed, p lab.Path) (rate float64, err error) {
	const port = "5301"
	if b.server != b.name {
		if _, err := b.exec(ctx, p.DestinationNode, "iperf3", "-s", "-D", "-p", port); err != nil {
			return 0, err
		}
		b.server = b.name
	}
	var out string
	for range 20 { // until the server listens
		if out, err = b.exec(ctx, p.SourceNode, "iperf3", "-J", "-t", "1", "-p", port, "-B", p.Source.String(), "-c", p.Destination.String()); err == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err != nil {
		return 0, err
	}
	var said struct {
		End struct {
			Received struct {
				Rate float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	if err := json.Unmarshal([]byte(out), &said); err != nil {
		return 0, fmt.Errorf("read what iperf3 printed: %w", err)
	}
	return said.End.Received.Rate, nil
}

// witnessed is what a witness said before a trial.
type witnessed struct {
	Trial string
	Value float64
}

// watch has a witness measure each path before its trial, and keeps what it says in
// a file, one JSON object a line.
func (i instrument) watch(file string) planter {
	if i.witness == nil {
		return nil
	}
	return func(ctx context.Context, b *bed, t experiment.PlannedTrial) (undo func() error, err error) {
		value, err := i.witness(ctx, b, b.laid(t.Path))
		if err != nil {
			return nil, fmt.Errorf("%s on path %s: %w", i.by, t.Path, err)
		}
		line, err := json.Marshal(witnessed{t.ID, value})
		if err != nil {
			return nil, err
		}
		f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
		if err != nil {
			return nil, err
		}
		_, err = f.Write(append(line, '\n'))
		return nil, errors.Join(err, f.Close())
	}
}

// read reads what a witness said, by trial.
func readWitness(file string) (said map[string]float64, err error) {
	said = map[string]float64{}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return said, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var w witnessed
		if err := json.Unmarshal(lines.Bytes(), &w); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		said[w.Trial] = w.Value
	}
	return said, nil
}

// series are the values of one path by one measure, by block.
type series map[int]float64

// less takes another series off, block by block.
func (s series) less(other series) series {
	out := series{}
	for block, v := range s {
		if o, ok := other[block]; ok {
			out[block] = v - o
		}
	}
	return out
}

// show is the median and the standard deviation of a series.
func (s series) show(i instrument) string {
	if len(s) == 0 {
		return ""
	}
	var values []float64
	for _, v := range s {
		values = append(values, v/i.per)
	}
	_, standardError := meanAndError(values)
	return fmt.Sprintf("%.4g ± %.2g", statistics.Median(values), standardError*math.Sqrt(float64(len(values))))
}

func instruments(ctx context.Context, o options, c *campaign) (report, error) {
	all := allInstruments()
	c.planned = len(all)
	out := table{head: []string{"property", "planted", "hopbench", "witness", "hopbench less witness"}}
	_, err := c.repeat(ctx, func(number int) error {
		i := all[number]
		i.design.blocks = o.pick(3, 10)
		file := filepath.Join(c.dir, i.design.name+"-witness.jsonl")
		k, err := c.run(ctx, i.design, 0, i.watch(file))
		if err != nil {
			return err
		}
		said, err := readWitness(file)
		if err != nil {
			return err
		}
		own, theirs := map[string]series{}, map[string]series{}
		for _, p := range i.design.paths {
			own[p.name], theirs[p.name] = series{}, series{}
		}
		for _, t := range k.trials {
			if v, ok := t.Metrics[i.metric]; ok && t.Gate.Passed {
				own[t.Path][t.Block] = v
			}
			if v, ok := said[t.ID]; ok {
				theirs[t.Path][t.Block] = v
			} else if i.counted != nil {
				if v, ok := i.counted(t); ok {
					theirs[t.Path][t.Block] = v
				}
			}
		}
		base := i.design.paths[0].name
		for _, p := range i.design.paths[1:] {
			a, b := own[p.name], theirs[p.name]
			if i.difference {
				a, b = a.less(own[base]), b.less(theirs[base])
			}
			by := cmp.Or(i.by, "the hop's own counters")
			if i.witness == nil && i.counted == nil {
				by = ""
			}
			out.add(i.design.name, fmt.Sprintf("%.4g %s", i.planted[p.name]/i.per, i.unit), a.show(i), joined(b.show(i), by), a.less(b).show(i))
		}
		return nil
	})
	return report{
		text:   []string{"Medians and standard deviations over the blocks of what the link emulator was set to, what hopbench measured, and what a witness measured: ping and iperf3 on the same path just before, the hop's own counters during the trial. Delays are round trips beyond those of a path without the delay. Reordering has no witness but the setting."},
		tables: []table{out},
	}, err
}
