package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/metrics"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/ui"
)

// anyPort has the page at whatever port of this machine is free.
const anyPort = "127.0.0.1:0"

// onStandardOutput, in place of a file, is standard output.
const onStandardOutput = "-"

// viewFlags say who else than the terminal watches a run.
type viewFlags struct{ events, prometheus, ui string }

func (f *viewFlags) define(flags *pflag.FlagSet) {
	f.defineEvents(flags)
	flags.StringVar(&f.prometheus, "prometheus", "", "[ADDRESS]:PORT at which Prometheus finds /metrics while the run goes on (without an address: this machine alone)")
	flags.StringVar(&f.ui, "ui", "", "show the run on a page, whose address is printed; --ui=ADDRESS:PORT has it there, and not on this machine alone")
	flags.Lookup("ui").NoOptDefVal = anyPort
}

// defineEvents is define for what is not watched by people.
func (f *viewFlags) defineEvents(flags *pflag.FlagSet) {
	flags.StringVar(&f.events, "events", "", "write each step into this FILE, one JSON document a line; - is standard output, and nothing else is printed there")
}

// views are those who watch a run, or several one after the other, besides the terminal.
type views struct {
	stream *event.Stream
	page   *ui.Server // nil without
	// ending has what to wait for, once the stream is closed.
	ending []func() error
}

// open prepares all that was asked for, before anything is measured. What the run prints
// goes nowhere if standard output is for events.
func (f viewFlags) open(ctx context.Context, s *streams, json bool) (_ *views, err error) {
	v := &views{stream: event.NewStream()}
	defer func() {
		if err != nil {
			err = errors.Join(base.Usage(err), v.close())
		}
	}()
	ctx = context.WithoutCancel(ctx) // who watches sees how the run ends
	if f.events == onStandardOutput {
		if json {
			return nil, errors.New("--events - and --json both want standard output; give --events a file")
		}
		v.write(ctx, s.out, func() error { return nil })
		s.out = io.Discard
	} else if f.events != "" {
		file, err := os.Create(f.events)
		if err != nil {
			return nil, fmt.Errorf("--events: %w", err)
		}
		v.write(ctx, file, func() error {
			// A pipe that nobody reads must not hold up the end; a file has no deadline, and needs none.
			_ = file.SetWriteDeadline(time.Now().Add(drainTime))
			return nil
		})
		v.ending = append(v.ending, file.Close)
	}
	if f.prometheus != "" {
		if err := v.expose(ctx, s, f.prometheus); err != nil {
			return nil, err
		}
	}
	if f.ui != "" {
		if v.page, err = ui.Listen(ctx, ui.Options{Address: f.ui, Stream: v.stream}); err != nil {
			return nil, fmt.Errorf("--ui: %w", err)
		}
		v.ending = append(v.ending, v.page.Close)
		tellPage(s, v.page)
	}
	return v, nil
}

// drainTime is how long a pipe may take to read the last events.
const drainTime = 5 * time.Second

// write has the events written until the stream is closed. Hurry is called then.
func (v *views) write(ctx context.Context, w io.Writer, hurry func() error) {
	written := make(chan error, 1)
	reader := v.stream.Read(0)
	go func() { written <- event.Write(ctx, w, reader) }()
	v.ending = append(v.ending, hurry, func() error {
		select {
		case err := <-written:
			return err
		case <-time.After(2 * drainTime): // standard output, which may take no deadline
			return errors.New("write the events: nobody read all of them")
		}
	})
}

// expose has Prometheus see the run until the stream is closed.
func (v *views) expose(ctx context.Context, s *streams, address string) error {
	end, err := expose(ctx, s, address, func(ctx context.Context, at net.Listener) error { return metrics.ServeRun(ctx, at, v.stream.State) })
	if err != nil {
		return err
	}
	v.ending = append(v.ending, end)
	return nil
}

// expose has metrics served at an address, which is told, until end is called.
func expose(ctx context.Context, s *streams, address string, serve func(context.Context, net.Listener) error) (end func() error, err error) {
	host, port, err := net.SplitHostPort(address)
	if err == nil && host == "" {
		address = net.JoinHostPort("127.0.0.1", port)
	}
	at, err := metrics.Listen(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("--prometheus: %w; write an address and a port that is free, such as 127.0.0.1:9151", err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- serve(ctx, at) }()
	fmt.Fprintf(s.err, "metrics: http://%v/metrics\n", at.Addr())
	return func() error {
		stop()
		return <-served
	}, nil
}

// tellPage prints the address of the pages. It is told nowhere else.
func tellPage(s *streams, page *ui.Server) {
	fmt.Fprintf(s.err, "page: %s\n", page.URL())
	if !page.Loopback() {
		fmt.Fprintln(s.err, "warning: whoever sees this address on the network, which carries it in clear text, can read the page; over ssh -L it needs no address but 127.0.0.1")
	}
}

// report has the page show the result of a run; nil where there is none.
func (v *views) report(r *result.Result) {
	if v.page != nil {
		v.page.Report(r)
	}
}

// close ends all views: each gets what was published. A second close does nothing.
func (v *views) close() error {
	v.stream.Close()
	var err error
	for _, end := range v.ending {
		err = errors.Join(err, end())
	}
	v.ending = nil
	return err
}
