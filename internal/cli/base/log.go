package base

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// NewLog writes what goes wrong in a server to w, in lines like those of its tests: the time,
// the client, what happened. What happens again and again, as at a limit of open files, is written
// once in repeatTime.
func NewLog(w io.Writer) *slog.Logger { return slog.New(logHandler{w: w, last: &lastLine{}}) }

// repeatTime is how long a line stands for others of the same text that come next.
const repeatTime = 10 * time.Second

// lastLine is the one that was written last.
type lastLine struct {
	mu   sync.Mutex
	text string
	at   time.Time
	more int // that were not written since, of the same text
}

type logHandler struct {
	w     io.Writer
	attrs []slog.Attr
	last  *lastLine
}

func (h logHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.w, slices.Concat(h.attrs, attrs), h.last}
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
			why = ": " + strings.ReplaceAll(value, "\n", "; ") // of several errors
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
	text = Shown(client+text+why) + stack
	h.last.mu.Lock()
	defer h.last.mu.Unlock()
	same, more := text == h.last.text, ""
	if same && r.Time.Sub(h.last.at) < repeatTime {
		h.last.more++
		return nil
	}
	if same && h.last.more > 0 {
		more = fmt.Sprintf(" (and %d times since the last line)", h.last.more)
	}
	h.last.text, h.last.at, h.last.more = text, r.Time, 0
	_, err := io.WriteString(h.w, r.Time.Format(time.TimeOnly)+"  "+text+more+"\n")
	return err
}
