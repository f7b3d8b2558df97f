package probe

import (
	"errors"
	"fmt"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/protocol"
)

// refusal is an error for the client.
func refusal(reason Reason, format string, args ...any) error {
	return &refused{&protocol.RemoteError{Reason: string(reason), Message: fmt.Sprintf(format, args...)}, nil}
}

// limited makes a budget's refusal one for the client.
func limited(err error) error {
	if r, ok := errors.AsType[*admission.Refusal](err); ok {
		return &refused{&protocol.RemoteError{Reason: string(Limit), Message: r.Error()}, r}
	}
	return err
}

// refused is what this end tells the other, and why, if a budget refused it.
type refused struct {
	told  *protocol.RemoteError
	cause error
}

func (r *refused) Error() string   { return r.told.Message }
func (r *refused) Unwrap() []error { return []error{r.told, r.cause} }

// refusedFor is why a client was refused or a connection failed, as a word for
// counts: the resource of a budget, or the reason.
func refusedFor(err error) string {
	if r, ok := errors.AsType[*admission.Refusal](err); ok {
		return r.Resource.String()
	}
	return string(reasonOf(err))
}

// isLost says that nobody is left to tell about an error.
func isLost(err error) bool { return reasonOf(err) == Vanished }

func errorFrame(err error) *protocol.RemoteError {
	if remote := new(protocol.RemoteError); errors.As(err, &remote) {
		return remote
	}
	return &protocol.RemoteError{Reason: string(reasonOf(err)), Message: err.Error()}
}
