package admission

import (
	"fmt"
	"runtime/debug"
)

// Panic is the error of work that panicked.
type Panic struct {
	Value any
	Stack []byte
}

func (p *Panic) Error() string { return fmt.Sprintf("internal error: %v", p.Value) }

// Contain does f and makes an error of its panic, so that what goes wrong for one
// client ends that client's connection and not the process. Each goroutine that
// works for a client needs one of its own.
func Contain(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &Panic{Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}
