package event

import (
	"context"
	"encoding/json"
	"errors"
	"io"
)

// Write writes what a reader gets as JSON documents, one a line and a call, until the stream is
// closed or ctx is over.
func Write(ctx context.Context, w io.Writer, r *Reader) error {
	encoder := json.NewEncoder(w)
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
				return err
			}
		}
	}
}
