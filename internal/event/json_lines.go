package event

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Write writes what a reader gets as JSON documents, one a line, until the stream is
// closed or ctx is over. Whoever reads the lines has each as soon as no more are there.
func Write(ctx context.Context, w io.Writer, r *Reader) error {
	buffered := bufio.NewWriter(w)
	encoder := json.NewEncoder(buffered)
	for {
		events, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := encoder.Encode(e); err != nil {
				return fmt.Errorf("write the events: %w", err)
			}
		}
		if err := buffered.Flush(); err != nil {
			return fmt.Errorf("write the events: %w", err)
		}
	}
}
