package live

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

// AnyPort has the page at whatever port of this machine is free.
const AnyPort = "127.0.0.1:0"

// onStandardOutput, in place of a file, is standard output.
const onStandardOutput = "-"

// Flags say who else than the terminal watches a run.
type Flags struct {
	events, prometheus, ui string
	// Resumed says that the file of events may have those of the run's earlier part, which are
	// kept.
	Resumed bool
	// Folder is that of the run, empty where it is not known yet.
	Folder string
}

func (f *Flags) Define(flags *pflag.FlagSet) {
	f.DefineEvents(flags)
	flags.StringVar(&f.prometheus, "prometheus", "", "[ADDRESS]:PORT at which Prometheus finds /metrics during the run (without an address: loopback only)")
	flags.StringVar(&f.ui, "ui", "", "show the run on a web page and print its address; --ui=ADDRESS:PORT listens there instead of on loopback")
	flags.Lookup("ui").NoOptDefVal = AnyPort
}

// DefineEvents is Define for what is not watched by people.
func (f *Flags) DefineEvents(flags *pflag.FlagSet) {
	flags.StringVar(&f.events, "events", "", "write each step to this FILE, one JSON document per line; - is standard output, and nothing else is printed there")
}

// Views are those who watch a run, or several one after the other, besides the terminal.
type Views struct {
	Stream *event.Stream
	page   *ui.Server // nil without
	// ending has what to wait for, once the stream is closed.
	ending []func() error
}

// Open prepares all that was asked for, before anything is measured. What the run prints
// goes nowhere if standard output is for events.
func (f Flags) Open(ctx context.Context, s *base.Streams, json bool) (_ *Views, err error) {
	v := &Views{Stream: event.NewStream()}
	defer func() {
		if err != nil {
			err = errors.Join(base.Usage(err), v.Close())
		}
	}()
	ctx = context.WithoutCancel(ctx) // who watches sees how the run ends
	if f.events == onStandardOutput {
		if json {
			return nil, errors.New("events and the result both want standard output; give --events a file")
		}
		v.write(ctx, s.Out, func() error { return nil })
		s.Out = io.Discard
	} else if f.events != "" {
		if err := NotOfRun(f.events, f.Folder); err != nil {
			return nil, fmt.Errorf("--events: %w", err)
		}
		file, err := f.file()
		if err != nil {
			return nil, fmt.Errorf("--events: %w", err)
		}
		v.write(ctx, &anew{File: file, begun: f.Resumed}, func() error {
			// A pipe that nobody reads must not hold up the end; a file has no deadline, and needs none.
			_ = file.SetWriteDeadline(time.Now().Add(drainTime))
			return nil
		})
		v.ending = append(v.ending, file.Close)
	}
	if f.prometheus != "" {
		end, err := Expose(ctx, s, f.prometheus, func(ctx context.Context, at net.Listener) error { return metrics.ServeRun(ctx, at, v.Stream.State) })
		if err != nil {
			return nil, err
		}
		v.ending = append(v.ending, end)
	}
	if f.ui != "" {
		if v.page, err = ui.Listen(ctx, ui.Options{Address: f.ui, Stream: v.Stream}); err != nil {
			return nil, fmt.Errorf("--ui: %w", err)
		}
		v.ending = append(v.ending, v.page.Close)
		TellPage(s, v.page)
	}
	return v, nil
}

// file opens the file of events.
func (f Flags) file() (*os.File, error) {
	if info, err := os.Stat(f.events); !f.Resumed || err != nil || !info.Mode().IsRegular() {
		return os.OpenFile(f.events, os.O_RDWR|os.O_CREATE, 0o666)
	}
	file, err := os.OpenFile(f.events, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return nil, err
	}
	if err := endLine(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// anew is a file that is emptied when something is written to it: a command with a mistake
// leaves the events of the run before.
type anew struct {
	*os.File
	begun bool
}

func (a *anew) Write(p []byte) (int, error) {
	if !a.begun {
		if info, err := a.Stat(); err == nil && info.Mode().IsRegular() {
			if err := a.Truncate(0); err != nil {
				return 0, err
			}
		}
		a.begun = true
	}
	return a.File.Write(p)
}

// drainTime is how long a pipe may take to read the last events.
const drainTime = 5 * time.Second

// write has the events written until the stream is closed. Hurry is called then.
func (v *Views) write(ctx context.Context, w io.Writer, hurry func() error) {
	written := make(chan error, 1)
	reader := v.Stream.Read(0)
	go func() {
		file := patientFile{to: w, warn: func(text string) { Publish(v.Stream, event.Event{Code: event.Warning, Text: text}) }}
		err := errors.Join(event.Write(ctx, &file, reader), file.end())
		if err != nil {
			err = fmt.Errorf("write the events: %w", err)
		}
		written <- err
	}()
	v.ending = append(v.ending, hurry, func() error {
		select {
		case err := <-written:
			return err
		case <-time.After(2 * drainTime): // standard output, which may take no deadline
			return errors.New("write the events: nobody read all of them")
		}
	})
}

// Expose has metrics served at an address, which is told, until end is called.
func Expose(ctx context.Context, s *base.Streams, address string, serve func(context.Context, net.Listener) error) (end func() error, err error) {
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
	fmt.Fprintf(s.Err, "metrics: http://%v/metrics\n", at.Addr())
	return func() error {
		stop()
		return <-served
	}, nil
}

// TellPage prints the address of the pages. It is told nowhere else.
func TellPage(s *base.Streams, page *ui.Server) {
	fmt.Fprintf(s.Err, "page: %s\n", page.URL())
	if !page.Loopback() {
		fmt.Fprintln(s.Err, "warning: anyone who sees this address on the network, which carries it in clear text, can read the page; with ssh -L, 127.0.0.1 is enough")
	}
}

// Report has the page show the result of a run; nil where there is none.
func (v *Views) Report(r *result.Result) {
	if v.page != nil {
		v.page.Report(r)
	}
}

// Close ends all views: each gets what was published. A second close does nothing.
func (v *Views) Close() error {
	v.Stream.Close()
	var err error
	for _, end := range v.ending {
		err = errors.Join(err, end())
	}
	v.ending = nil
	return err
}
