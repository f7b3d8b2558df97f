package seat

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hopbench/hopbench/internal/testutil"
)

func TestSeatsAreBounded(t *testing.T) {
	good := Seat{ID: "vm-1_A", Generation: 1, Body: make([]byte, MaxBody)}
	text, err := Encode("run-1", good)
	testutil.OK(t, err)
	if len(text) > MaxMessage {
		t.Errorf("the largest seat has %d bytes as a message, more than MaxMessage", len(text))
	}
	for name, s := range map[string]Seat{
		"no name":           {Generation: 1},
		"a long name":       {ID: strings.Repeat("a", 64), Generation: 1},
		"a wildcard":        {ID: "*", Generation: 1},
		"two words":         {ID: "a.b", Generation: 1},
		"no generation":     {ID: "a"},
		"the last but one":  {ID: "a", Generation: MaxGeneration + 1},
		"a body over bound": {ID: "a", Generation: 1, Body: make([]byte, MaxBody+1)},
	} {
		if _, err := Encode("run-1", s); err == nil {
			t.Errorf("%s: is encoded", name)
		}
	}
	if _, err := Encode("a run", good); err == nil {
		t.Error("a run of two words: is encoded")
	}
}

func TestMessagesThatAreNone(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":               ``,
		"no JSON":               `seat`,
		"another format":        `{"format":"hopbench.seat/2","run":"r","id":"a","generation":1,"body":""}`,
		"an unknown field":      `{"format":"hopbench.seat/1","run":"r","id":"a","generation":1,"body":"","x":1}`,
		"two":                   `{"format":"hopbench.seat/1","run":"r","id":"a","generation":1,"body":""} {}`,
		"a negative generation": `{"format":"hopbench.seat/1","run":"r","id":"a","generation":-1,"body":""}`,
		"a body that is none":   `{"format":"hopbench.seat/1","run":"r","id":"a","generation":1,"body":"?"}`,
		"a run that is none":    `{"format":"hopbench.seat/1","run":"r.*","id":"a","generation":1,"body":""}`,
		"too long":              `{"format":"hopbench.seat/1","run":"r","id":"a","generation":1,"body":"` + strings.Repeat(" ", MaxMessage) + `"}`,
	} {
		if s, err := Decode("r", []byte(text)); err == nil {
			t.Errorf("%s: is read as %v", name, s)
		}
	}
	text, err := Encode("other", Seat{ID: "a", Generation: 1})
	testutil.OK(t, err)
	var foreign *ForeignError
	if _, err := Decode("r", text); !errors.As(err, &foreign) || foreign.Run != "other" {
		t.Errorf("a seat of another run: %v", err)
	}
}

// What is read is within bounds, and is the same when it is written and read again.
func FuzzDecode(f *testing.F) {
	text, err := Encode("r", Seat{ID: "a", Generation: 7, Body: []byte("body")})
	testutil.OK(f, err)
	f.Add(text)
	f.Add([]byte(`{"format":"hopbench.seat/1","run":"r","id":"a","generation":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Decode("r", text)
		if err != nil {
			return
		}
		again, err := Encode("r", s)
		if err != nil {
			t.Fatalf("%q is read as %v, which is none: %v", text, s, err)
		}
		same, err := Decode("r", again)
		if err != nil || !reflect.DeepEqual(s, same) {
			t.Fatalf("%q is read as %v, and that as %v: %v", text, s, same, err)
		}
	})
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ends := 0
		start := time.Now()
		term := NewTerm(10*time.Second, start, func() { ends++ })
		time.Sleep(6 * time.Second)
		// Sent 2 s ago: what counts is when it was sent.
		testutil.OK(t, term.Renew(start.Add(4*time.Second)))
		time.Sleep(8*time.Second - 1)
		synctest.Wait()
		if closed(term.Lost()) || term.Live() != nil {
			t.Error("lost before its end")
		}
		// One that was sent earlier than the last shortens nothing.
		testutil.OK(t, term.Renew(start))
		if err := term.Live(); err != nil {
			t.Error("an old renewal shortened it")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if !closed(term.Lost()) || !errors.Is(term.Live(), ErrLost) || ends != 1 {
			t.Errorf("not lost at its end: %v, ended %d times", term.Live(), ends)
		}
		if err := term.Renew(time.Now()); !errors.Is(err, ErrLost) {
			t.Errorf("renewed after its end: %v", err)
		}
		if term.Finish() {
			t.Error("finished after its end")
		}
	})
}

func TestTermFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term := NewTerm(time.Second, time.Now(), func() { t.Error("ended") })
		if !term.Finish() {
			t.Error("over already")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if closed(term.Lost()) || !errors.Is(term.Live(), ErrLost) {
			t.Error("a finished term: lost, or live")
		}
	})
}

// The time may be over before the term begins.
func TestTermOverAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term := NewTerm(time.Second, time.Now().Add(-2*time.Second), func() {})
		if !errors.Is(term.Live(), ErrLost) {
			t.Error("live")
		}
		<-term.Lost()
	})
}
