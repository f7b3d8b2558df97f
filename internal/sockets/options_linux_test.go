package sockets

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/testutil"
)

// Every field of Options is set on a socket, and the kernel says so.
func TestEachOptionIsSet(t *testing.T) {
	fields := reflect.TypeFor[Options]()
	for i := range fields.NumField() {
		field := fields.Field(i)
		o := only(t, i)
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

// only asks for one option, the field of that index.
func only(t *testing.T, i int) (o Options) {
	t.Helper()
	field := reflect.TypeFor[Options]().Field(i)
	value := map[string]any{"DSCP": 46, "CongestionControl": "reno", "Device": "lo"}[field.Name]
	switch to := reflect.ValueOf(&o).Elem().Field(i); {
	case value != nil:
		to.Set(reflect.ValueOf(value))
	case field.Type == reflect.TypeFor[time.Duration]():
		to.SetInt(int64(20 * time.Second))
	case field.Type == reflect.TypeFor[int]():
		to.SetInt(20_000)
		if fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0); err == nil {
			if setOptions(fd, o.options(false)) != nil {
				to.SetInt(46) // as what is one byte of a header
			}
			_ = unix.Close(fd)
		}
	case field.Type == reflect.TypeFor[bool]():
		to.SetBool(true)
	default:
		t.Fatalf("%s: which value would it have?", field.Name)
	}
	return o
}

// What a result is to say of an option is what the kernel says after it was set.
func TestEachOptionIsInForce(t *testing.T) {
	fields := reflect.TypeFor[Options]()
	for i := range fields.NumField() {
		field := fields.Field(i)
		sends, receives := field.Tag.Get("sends"), field.Tag.Get("receives")
		if sends == "" && receives == "" {
			continue
		}
		for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
			near, _ := conns(t, address)
			o := only(t, i)
			testutil.OK(t, near.SetOptions(o))
			want, got := reflect.ValueOf(o).Field(i), reflect.ValueOf(near.InForce()).Field(i)
			doubled := want.CanInt() && got.Int() == 2*want.Int() // buffers
			if negotiated := field.Name == "MSS"; got.IsZero() || !got.Equal(want) && !doubled && !negotiated {
				t.Errorf("%s over %s: %v is in force, %v was asked for", field.Name, address, got, want)
			}
			for name, end := range map[string]bool{sends: true, receives: false} {
				if text := near.InForce().Effective(end)[name]; name != "" && text != fmt.Sprint(got) {
					t.Errorf("%s over %s: the result says %q", name, address, text)
				}
			}
		}
	}
}
