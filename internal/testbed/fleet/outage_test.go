package fleet

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/fleet/bus"
)

// A machine that sends what is no frame of an agent, or more than is read, is dropped or
// expelled, and named; the others are as they were.
func TestBadMachines(t *testing.T) {
	y := newYard(t, time.Minute)
	y.machines(t, "c1")
	for name, say := range map[string]func(io.Writer) error{
		"babbler": func(w io.Writer) error {
			_, err := w.Write([]byte("this is no frame of anybody's"))
			return err
		},
		"flooder": func(w io.Writer) error {
			for range 1_000_000 {
				if _, err := w.Write(make([]byte, 1000)); err != nil {
					return err
				}
			}
			return errors.New("nobody minds a flood")
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- bus.Join(ctx, bus.AgentOptions{
				Address: y.Addr().String(), File: y.secret.File, Name: name, Hello: bus.Hello{Version: "test", Labels: []string{"role=server"}},
				Serve: func(ctx context.Context, link io.ReadWriteCloser) error {
					err := say(link)
					if err == nil {
						_, err = io.Copy(io.Discard, link)
					}
					return err
				},
			})
		}()
		for {
			note := <-y.notes
			if strings.Contains(note, "machine "+name+" is gone: ") || strings.Contains(note, "machine "+name+" is expelled: ") {
				break
			}
			if !strings.Contains(note, name) {
				t.Errorf("%s: %s", name, note)
			}
		}
		cancel()
		if err := <-done; err != nil {
			if _, permanent := errors.AsType[*bus.Permanent](err); !permanent {
				t.Error(err)
			}
		}
	}
	there, _ := y.with("role=client")
	if len(there) != 1 || there[0].Name != "c1" || there[0].client.Err() != nil {
		t.Errorf("there are %v", there)
	}
}
