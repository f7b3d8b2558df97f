package broker

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/hopbench/hopbench/internal/fleet/join"
	"github.com/hopbench/hopbench/internal/fleet/subject"
	"github.com/hopbench/hopbench/internal/testutil"
)

// asks is a server of a cluster that asks who may enter.
type asks struct {
	pair nkeys.KeyPair
	id   string
	user string // that it wants an answer about
}

func newAsks(t testing.TB) asks {
	t.Helper()
	pair, err := nkeys.CreateServer()
	testutil.OK(t, err)
	id, err := pair.PublicKey()
	testutil.OK(t, err)
	user, err := nkeys.CreateUser()
	testutil.OK(t, err)
	key, err := user.PublicKey()
	testutil.OK(t, err)
	return asks{pair, id, key}
}

func (a asks) question(t testing.TB, c claim) []byte {
	t.Helper()
	q := jwt.NewAuthorizationRequestClaims(a.user)
	q.UserNkey, q.Server.ID = a.user, a.id
	q.ConnectOptions = jwt.ConnectOptions{Username: c.user, Password: c.password, Nkey: c.key, SignedNonce: c.signature}
	q.ClientInformation.Nonce = string(c.nonce)
	text, err := q.Encode(a.pair)
	testutil.OK(t, err)
	return []byte(text)
}

func newCallout(t testing.TB) (*Callout, join.Secret) {
	t.Helper()
	secret, _, err := join.OpenCluster(filepath.Join(t.TempDir(), "fw.join"), "fw", join.Cluster{})
	testutil.OK(t, err)
	c, err := NewCallout(secret, 4, func(string) bool { return false })
	testutil.OK(t, err)
	return c, secret
}

// says is what an agent with the token of a fleet says.
func says(t testing.TB, f join.File, name string) claim {
	t.Helper()
	c := claimOf(t, name)
	c.password = f.Proof(name, c.key)
	return c
}

// A cluster is told the same as the embedded broker: who may enter, and what it may do there.
func TestAnswer(t *testing.T) {
	c, secret := newCallout(t)
	a := newAsks(t)
	first, second := says(t, secret.File, "vm-1"), says(t, secret.File, "vm-1")
	stranger := first
	stranger.password = ""
	for _, q := range []struct {
		name        string
		claim       claim
		allow, deny string // of what it may publish
		refused     bool
	}{
		{name: "an agent", claim: first, allow: "hopbench-fw-join.vm-1-" + first.key},
		{name: "another of its name", claim: second, deny: ">"},
		{name: "without the token", claim: stranger, refused: true},
		{name: "as the coordinator", claim: claim{user: coordinatorUser}, refused: true},
	} {
		answer, err := jwt.DecodeAuthorizationResponseClaims(string(c.Answer(a.question(t, q.claim))))
		testutil.OK(t, err)
		if answer.Audience != a.id || answer.Subject != a.user || (answer.Error != "") != q.refused || (answer.Jwt == "") != q.refused {
			t.Errorf("%s: %+v", q.name, answer)
		}
		if q.refused {
			continue
		}
		user, err := jwt.DecodeUserClaims(answer.Jwt)
		testutil.OK(t, err)
		if user.Subject != a.user || user.Audience != clusterAccount || user.Name != "vm-1" {
			t.Errorf("%s: %+v", q.name, user)
		}
		if q.allow != "" && (!user.Pub.Allow.Contains(q.allow) || len(user.Pub.Allow) != 2 || len(user.Sub.Allow) != 1 || user.Expires != 0) {
			t.Errorf("%s: %+v", q.name, user.Permissions)
		}
		if q.deny != "" && (!user.Pub.Deny.Contains(q.deny) || !user.Sub.Deny.Contains(q.deny) || user.Expires == 0) {
			t.Errorf("%s: %+v", q.name, user.Permissions)
		}
	}
	// A question that no server signed is none.
	forged, err := nkeys.CreateUser()
	testutil.OK(t, err)
	a.pair = forged
	q := jwt.NewAuthorizationRequestClaims(a.user)
	q.UserNkey, q.Server.ID = a.user, a.id
	if text, err := q.Encode(forged); err == nil && c.Answer([]byte(text)) != nil {
		t.Error("a question of a user's is answered")
	}
}

// Who is there when a coordinator begins keeps its name, and who was expelled has none.
func TestNoted(t *testing.T) {
	c, secret := newCallout(t)
	c.listens = func(string) bool { return true }
	at := time.Unix(1, 0)
	c.now = func() time.Time { return at }
	first, second := says(t, secret.File, "vm-1"), says(t, secret.File, "vm-1")
	who, other := subject.Agent{Fleet: "fw", Name: "vm-1", Key: first.key}, subject.Agent{Fleet: "fw", Name: "vm-1", Key: second.key}
	c.Noted(who)
	c.Noted(other)
	at = at.Add(time.Hour)
	if _, v := c.decide(second); v != taken || !c.Admits(who) || c.Admits(other) {
		t.Errorf("another of a name that was there: %v", v)
	}
	testutil.OK(t, c.Expel(who))
	if _, v := c.decide(first); v != refused || c.Admits(who) {
		t.Errorf("one that was expelled: %v", v)
	}
}

// What the administrator adds has the public halves of two keys, always the same, and no
// secret.
func TestClusterConfig(t *testing.T) {
	_, secret := newCallout(t)
	text, err := ClusterConfig(secret)
	testutil.OK(t, err)
	again, err := ClusterConfig(secret)
	testutil.OK(t, err)
	user, sign, err := ClusterLogin(secret)
	testutil.OK(t, err)
	signature, err := sign([]byte("nonce"))
	testutil.OK(t, err)
	key, err := nkeys.FromPublicKey(user)
	testutil.OK(t, err)
	testutil.OK(t, key.Verify([]byte("nonce"), signature))
	if text != again || strings.Count(text, user) != 2 || strings.Contains(text, secret.File.Token) || strings.Count(text, "\n") != 2 {
		t.Error(text)
	}
	_, other := newCallout(t)
	if another, err := ClusterConfig(other); err != nil || another == text {
		t.Errorf("two fleets have the same keys, %v", err)
	}
}

// Nobody without the token is admitted, whatever a server asks, or says that it is.
func FuzzAnswer(f *testing.F) {
	c, _ := newCallout(f)
	a := newAsks(f)
	f.Add(a.question(f, claim{user: "vm-1", password: "x", key: "y", nonce: []byte("n")}))
	f.Add([]byte("eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.e30.AA"))
	f.Fuzz(func(t *testing.T, question []byte) {
		answer := c.Answer(question)
		if answer == nil {
			return
		}
		said, err := jwt.DecodeAuthorizationResponseClaims(string(answer))
		if err != nil || said.Error == "" || said.Jwt != "" {
			t.Errorf("%q is answered with %+v, %v", question, said, err)
		}
	})
}
