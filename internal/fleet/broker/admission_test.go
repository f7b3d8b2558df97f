package broker

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/hopbench/hopbench/internal/fleet/join"
	"github.com/hopbench/hopbench/internal/testutil"
)

var file = join.File{Fleet: "fw", Token: strings.Repeat("0a", 32)}

// door is an admission at which nobody listens, at a time of the test's.
type door struct {
	*admission
	listening map[string]bool
	at        time.Time
}

func newDoor(maxAgents int) *door {
	d := &door{admission: newAdmission(file, "secret", maxAgents), listening: map[string]bool{}, at: time.Unix(1, 0)}
	d.listens = func(subject string) bool { return d.listening[subject] }
	d.now = func() time.Time { return d.at }
	return d
}

// claimOf is what an agent says by the rules.
func claimOf(t testing.TB, name string) claim {
	t.Helper()
	pair, err := nkeys.CreateUser()
	testutil.OK(t, err)
	key, err := pair.PublicKey()
	testutil.OK(t, err)
	nonce := []byte("nonce of the broker")
	signature, err := pair.Sign(nonce)
	testutil.OK(t, err)
	return claim{user: name, password: file.Proof(name, key), key: key, signature: base64.RawURLEncoding.EncodeToString(signature), nonce: nonce}
}

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*claim)
		want   verdict
	}{
		{"an agent", func(*claim) {}, admitted},
		{"the coordinator", func(c *claim) { *c = claim{user: coordinatorUser, password: "secret"} }, coordinator},
		{"a coordinator that guesses", func(c *claim) { *c = claim{user: coordinatorUser, password: "Secret"} }, refused},
		{"a coordinator without a password", func(c *claim) { *c = claim{user: coordinatorUser} }, refused},
		{"nobody", func(c *claim) { *c = claim{} }, refused},
		{"no proof", func(c *claim) { c.password = "" }, refused},
		{"the proof of another name", func(c *claim) { c.user = "vm-2" }, refused},
		{"the proof of another key", func(c *claim) { c.key = claimOf(t, "x").key }, refused},
		{"a signature of another nonce", func(c *claim) { c.nonce = []byte("another") }, refused},
		{"no nonce", func(c *claim) { c.nonce = nil }, refused},
		{"no signature", func(c *claim) { c.signature = "" }, refused},
		{"a name with a subject in it", func(c *claim) { c.user = "a.b"; c.password = file.Proof("a.b", c.key) }, refused},
		{"a wildcard", func(c *claim) { c.user = ">"; c.password = file.Proof(">", c.key) }, refused},
		{"a key that is none", func(c *claim) { c.key = strings.Repeat("U", 56); c.password = file.Proof(c.user, c.key) }, refused},
	} {
		said := claimOf(t, "vm-1")
		c.change(&said)
		if _, got := newDoor(4).decide(said); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// A name is its holder's while that is there, and free afterwards.
func TestNames(t *testing.T) {
	d := newDoor(4)
	first, second := claimOf(t, "vm-1"), claimOf(t, "vm-1")
	expect := func(what string, c claim, want verdict) {
		t.Helper()
		if _, got := d.decide(c); got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	expect("the first", first, admitted)
	expect("the second, at once", second, taken)
	who, _ := d.decide(first)
	d.listening[who.Command()] = true
	d.at = d.at.Add(time.Hour)
	expect("the second, while the first listens", second, taken)
	expect("the first again", first, admitted)
	d.at = d.at.Add(time.Hour)
	delete(d.listening, who.Command())
	expect("the second, once the first is gone", second, admitted)
	d.at = d.at.Add(time.Hour)
	d.revoke(second.key)
	expect("one that was expelled", second, refused)
	expect("the first, after that", first, admitted)
}

// Names are not remembered without end.
func TestNamesAreBounded(t *testing.T) {
	d := newDoor(2)
	for n := range namesPerAgent*2 + spareConnections {
		if _, got := d.decide(claimOf(t, fmt.Sprint("vm-", n))); got != admitted {
			t.Fatalf("agent %d: %v", n, got)
		}
	}
	if _, got := d.decide(claimOf(t, "late")); got != refused {
		t.Errorf("one too many: %v", got)
	}
	d.at = d.at.Add(time.Hour)
	if _, got := d.decide(claimOf(t, "later")); got != admitted || len(d.holders) != 1 {
		t.Errorf("once the others are gone: %v, %d names", got, len(d.holders))
	}
}

// Nobody without the token is admitted, whatever is said.
func FuzzDecide(f *testing.F) {
	c := claimOf(f, "vm-1")
	f.Add(c.user, c.password, c.key, c.signature, c.nonce)
	f.Add(coordinatorUser, "", "", "", []byte{})
	f.Add("a.b", strings.Repeat("0", 64), strings.Repeat("U", 56), "****", []byte("n"))
	f.Fuzz(func(t *testing.T, user, password, key, signature string, nonce []byte) {
		d := newDoor(4)
		said := claim{user, password, key, signature, nonce}
		who, got := d.decide(said)
		switch {
		case got == coordinator && (user != coordinatorUser || password != "secret"):
			t.Errorf("%+v is the coordinator", said)
		case got == admitted && (who.Check() != nil || !file.Proves(user, key, password)):
			t.Errorf("%+v is admitted as %+v", said, who)
		}
	})
}
