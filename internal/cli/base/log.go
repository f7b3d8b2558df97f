package base

import (
	"context"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"time"
)

// NewLog writes what goes wrong in a server to w, in lines like those of its tests: the time,
// the client, what happened.
func NewLog(w io.Writer) *slog.Logger { return slog.New(logHandler{w: w}) }

type logHandler struct {
	w     io.Writer
	attrs []slog.Attr
}

func (h logHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.w, slices.Concat(h.attrs, attrs)}
}

func (h logHandler) WithGroup(string) slog.Handler { return h }

func (h logHandler) Handle(_ context.Context, r slog.Record) error {
	client, text, why, stack := "", r.Message, "", ""
	each := func(a slog.Attr) bool {
		value := a.Value.Resolve().String()
		switch a.Key {
		case "client":
			client = value + "  "
			if at, err := netip.ParseAddrPort(value); err == nil {
				client = at.Addr().Unmap().String() + "  "
			}
		case "error":
			why = ": " + value
		case "stack":
			stack = "\n    " + ShownLines(value, "    ")
		default:
			text += ", " + a.Key + " " + value
		}
		return true
	}
	for _, a := range h.attrs {
		each(a)
	}
	r.Attrs(each)
	_, err := io.WriteString(h.w, r.Time.Format(time.TimeOnly)+"  "+Shown(client+text+why)+stack+"\n")
	return err
}
