package session

import (
	"errors"
	"fmt"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/protocol"
)

// Refusal is an error for the client.
func Refusal(reason Reason, format string, args ...any) error {
	return &refused{&protocol.RemoteError{Reason: string(reason), Message: fmt.Sprintf(format, args...)}, nil}
}

// FromBudget makes a budget's refusal one for the client.
func FromBudget(err error) error {
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

// RefusedFor is why a client was refused or a connection failed, as a word for
// counts: the resource of a budget, or the reason.
func RefusedFor(err error) string {
	if r, ok := errors.AsType[*admission.Refusal](err); ok {
		return r.Resource.String()
	}
	return string(ReasonOf(err))
}

// IsLost says that nobody is left to tell about an error.
func IsLost(err error) bool { return ReasonOf(err) == Vanished }

// ErrorFrame is what the other end is told of an error.
func ErrorFrame(err error) *protocol.RemoteError {
	if remote := new(protocol.RemoteError); errors.As(err, &remote) {
		return remote
	}
	return &protocol.RemoteError{Reason: string(ReasonOf(err)), Message: err.Error()}
}
