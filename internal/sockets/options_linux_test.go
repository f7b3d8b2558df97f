package sockets

import (
	"reflect"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/testutil"
)

// Every field of Options is set on a socket, and the kernel says so.
func TestEachOptionIsSet(t *testing.T) {
	values := map[string]any{"DSCP": 46, "CongestionControl": "reno", "Device": "lo"}
	fields := reflect.TypeFor[Options]()
	for i := range fields.NumField() {
		field := fields.Field(i)
		var o Options
		value := values[field.Name]
		switch to := reflect.ValueOf(&o).Elem().Field(i); {
		case value != nil:
			to.Set(reflect.ValueOf(value))
		case field.Type == reflect.TypeFor[time.Duration]():
			to.SetInt(int64(20 * time.Second))
		case field.Type == reflect.TypeFor[int]():
			to.SetInt(20_000)
		case field.Type == reflect.TypeFor[bool]():
			to.SetBool(true)
		default:
			t.Fatalf("%s: which value would it have?", field.Name)
		}
		for _, six := range []bool{false, true} {
			asked := o.options(six)
			if len(asked) != 1 {
				t.Fatalf("%s asks for %d options of a socket", field.Name, len(asked))
			}
			fd, err := unix.Socket(map[bool]int{false: unix.AF_INET, true: unix.AF_INET6}[six], unix.SOCK_STREAM, 0)
			testutil.OK(t, err)
			defer unix.Close(fd)
			want := asked[0]
			if got, _ := unix.GetsockoptInt(fd, want.level, want.key); want.text == "" && got == want.value {
				t.Fatalf("%s is %d before it is set", want.what, got)
			}
			testutil.OK(t, setOptions(fd, asked))
			if want.text != "" {
				if got, err := unix.GetsockoptString(fd, want.level, want.key); err != nil || got != want.text {
					t.Errorf("%s is %q, %v", want.what, got, err)
				}
				continue
			}
			got, err := unix.GetsockoptInt(fd, want.level, want.key)
			testutil.OK(t, err)
			if buffer := want.key == unix.SO_SNDBUF || want.key == unix.SO_RCVBUF; got != want.value && !(buffer && got == 2*want.value) {
				t.Errorf("%s is %d", want.what, got)
			}
		}
	}
}
