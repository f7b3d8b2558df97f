package seat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/hopbench/hopbench/internal/fleet/subject"
)

// MaxMessage bounds what a message in a queue may have, in bytes: a body in Base64, and
// 512 for all else.
const MaxMessage = (MaxBody+2)/3*4 + 512

const format = "hopbench.seat/1"

// message is a seat in a queue: JSON, so that who looks into a broker can read it.
type message struct {
	Format     string `json:"format"`
	Run        string `json:"run"`
	ID         string `json:"id"`
	Generation uint64 `json:"generation"`
	Body       []byte `json:"body"`
}

// ForeignError says that a message is of another run.
type ForeignError struct{ Run string }

func (e *ForeignError) Error() string { return fmt.Sprintf("a seat of the run %s", e.Run) }

// Encode makes the message that holds a seat of run.
func Encode(run string, s Seat) ([]byte, error) {
	if err := subject.CheckName(run); err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	if err := s.Check(); err != nil {
		return nil, err
	}
	return json.Marshal(message{format, run, s.ID, s.Generation, s.Body})
}

// Decode reads a message that a queue of run brought: foreign bytes. A message of another
// run is a *ForeignError.
func Decode(run string, text []byte) (Seat, error) {
	if len(text) > MaxMessage {
		return Seat{}, fmt.Errorf("read a seat: %d bytes, more than %d", len(text), MaxMessage)
	}
	var m message
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return Seat{}, fmt.Errorf("read a seat: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return Seat{}, errors.New("read a seat: something follows it")
	}
	if m.Format != format {
		return Seat{}, fmt.Errorf("read a seat: format %.40q, not %s", m.Format, format)
	}
	if err := subject.CheckName(m.Run); err != nil {
		return Seat{}, fmt.Errorf("read a seat: run: %w", err)
	}
	s := Seat{ID: m.ID, Generation: m.Generation, Body: m.Body}
	if err := s.Check(); err != nil {
		return Seat{}, fmt.Errorf("read a seat: %w", err)
	}
	if m.Run != run {
		return Seat{}, &ForeignError{m.Run}
	}
	return s, nil
}
