package printable

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

type name string

type inner struct {
	Name  name
	Inner *inner
}

// everything has text in every way in which a message may have it.
type everything struct {
	inner
	Text    string
	Pointer *string
	List    []string
	Pair    [2]string
	Names   []name
	Inners  []inner
	Map     map[string]string
	Named   map[name][]string
	Numbers map[string]float64
	Series  [][]float64
	Bytes   []byte
	When    time.Time
	Any     int
}

var few = Bounds{Text: 10, Item: 8, Key: 4, Value: 6, Items: 3}

func TestFields(t *testing.T) {
	bad := "\x1b[2J\u202e0123456789"
	e := everything{
		inner: inner{Name: name(bad), Inner: &inner{Name: name(bad)}},
		Text:  bad, Pointer: &bad, List: []string{bad, "b", "c", "d"}, Pair: [2]string{bad, "ok"},
		Names: []name{name(bad)}, Inners: []inner{{Name: name(bad)}},
		Map:   map[string]string{bad: bad, "b": "b", "c": "c", "d": "d"},
		Named: map[name][]string{name(bad): {bad}}, Numbers: map[string]float64{bad: 1},
		Series: [][]float64{{1}}, Bytes: []byte("\x1b"), When: time.Unix(1, 0),
	}
	Fields(&e, few)
	const text, item = " [2J 0123…", " [2J 01…"
	want := everything{
		inner: inner{Name: text, Inner: &inner{Name: text}},
		Text:  text, Pointer: e.Pointer, List: []string{item, "b", "c"}, Pair: [2]string{item, "ok"},
		Names: []name{item}, Inners: []inner{{Name: text}},
		Map:   map[string]string{" [2…": " [2J …", "b": "b", "c": "c"},
		Named: map[name][]string{" [2…": {item}}, Numbers: map[string]float64{" [2…": 1},
		Series: [][]float64{{1}}, Bytes: []byte("\x1b"), When: time.Unix(1, 0),
	}
	if !reflect.DeepEqual(e, want) || *e.Pointer != text {
		t.Errorf("got  %q\nwant %q", fmt.Sprintf("%+v", e), fmt.Sprintf("%+v", want))
	}
}

func TestFieldsOfNothing(t *testing.T) {
	Fields(nil, few)
	Fields((*everything)(nil), few)
	Fields(&everything{}, few)
	Fields(everything{Text: "\x1b"}, few) // nothing can be set, and nothing breaks
}

func FuzzFields(f *testing.F) {
	f.Add(`{"Text":"\u001b","List":["\n"],"Map":{"\u202e":"x"},"Inner":{"Name":"\u0000"},"Named":{"a":["\u200b"]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var e everything
		if json.Unmarshal([]byte(text), &e) != nil {
			return
		}
		Fields(&e, few)
		if len(e.List) > few.Items || len(e.Map) > few.Items {
			t.Errorf("%d items and %d keys", len(e.List), len(e.Map))
		}
		var all []string
		for n := &e.inner; n != nil; n = n.Inner {
			all = append(all, string(n.Name))
		}
		all = append(append(all, e.Text, e.Pair[0], e.Pair[1]), e.List...)
		for k, v := range e.Map {
			all = append(all, k, v)
		}
		for k, v := range e.Named {
			all = append(append(all, string(k)), v...)
		}
		for _, s := range all {
			if utf8.RuneCountInString(s) > few.Text || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("%q", s)
			}
		}
	})
}
