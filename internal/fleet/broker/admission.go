package broker

import (
	"crypto/subtle"
	"encoding/base64"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/hopbench/hopbench/internal/fleet/join"
	"github.com/hopbench/hopbench/internal/fleet/subject"
)

// coordinatorUser is no name that an agent can have.
const coordinatorUser = "hopbench.coordinator"

const (
	// subscribeTime is how long somebody who was admitted has a name without listening.
	subscribeTime = 5 * time.Second
	// refusedTime is how long somebody who has the token, and not the name, may stay, to
	// find that out.
	refusedTime = 10 * time.Second
	// namesPerAgent bounds, per agent that may be connected, how many names and keys are
	// remembered, besides those of spareConnections: who is connected always has room, so that
	// a fleet is full where its connections are, which an agent hears.
	namesPerAgent = 4
	// maxProof bounds what is read of a proof or a signature, in bytes.
	maxProof = 256
)

// admission says who may do what at the broker (server.Authentication).
type admission struct {
	file     join.File
	password string // of the coordinator
	most     int    // names and keys that are remembered
	// listens says whether somebody reads a subject now.
	listens func(subject string) bool
	now     func() time.Time

	mu      sync.Mutex
	holders map[string]holder // by name
	revoked map[string]struct{}
}

// holder is who has a name.
type holder struct {
	key   string
	since time.Time
}

func newAdmission(file join.File, password string, maxAgents int) *admission {
	return &admission{
		file: file, password: password, most: namesPerAgent*max(maxAgents, 1) + spareConnections, now: time.Now,
		holders: map[string]holder{}, revoked: map[string]struct{}{},
	}
}

// claim is what somebody who connects says, and the nonce that the broker had told it.
type claim struct {
	user, password string
	key, signature string
	nonce          []byte
}

// verdict is what the broker makes of a claim.
type verdict int

const (
	refused verdict = iota
	coordinator
	admitted
	taken // it has the token, and another machine the name
)

// Check admits a connection, or not.
func (a *admission) Check(c server.ClientAuthentication) bool {
	o := c.GetOpts()
	if c.Kind() != server.CLIENT || o == nil {
		return false
	}
	who, v := a.decide(claim{user: o.Username, password: o.Password, key: o.Nkey, signature: o.Sig, nonce: c.GetNonce()})
	switch v {
	case coordinator:
		c.RegisterUser(&server.User{Username: coordinatorUser})
	case admitted:
		c.RegisterUser(&server.User{Username: who.Name, Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: []string{who.Join(), who.Event()}},
			Subscribe: &server.SubjectPermission{Allow: []string{who.Command()}},
		}})
	case taken:
		nothing := &server.SubjectPermission{Deny: []string{">"}}
		c.RegisterUser(&server.User{
			Username: who.Name, ConnectionDeadline: a.now().Add(refusedTime),
			Permissions: &server.Permissions{Publish: nothing, Subscribe: nothing},
		})
	}
	return v != refused
}

// decide says who somebody is, by what it can prove, and gives it its name if that is free.
func (a *admission) decide(c claim) (subject.Agent, verdict) {
	if c.user == coordinatorUser {
		if subtle.ConstantTimeCompare([]byte(c.password), []byte(a.password)) == 1 {
			return subject.Agent{}, coordinator
		}
		return subject.Agent{}, refused
	}
	who := subject.Agent{Fleet: a.file.Fleet, Name: c.user, Key: c.key}
	if who.Check() != nil || len(c.password) > maxProof || len(c.signature) > maxProof {
		return subject.Agent{}, refused
	}
	if !a.file.Proves(who.Name, who.Key, c.password) || !signed(c) {
		return subject.Agent{}, refused
	}
	return who, a.hold(who)
}

// signed says whether the nonce of the broker was signed with the key.
func signed(c claim) bool {
	if len(c.nonce) == 0 {
		return false
	}
	signature, err := base64.RawURLEncoding.DecodeString(c.signature)
	if err != nil {
		return false
	}
	key, err := nkeys.FromPublicKey(c.key)
	return err == nil && key.Verify(c.nonce, signature) == nil
}

// hold gives a name to who has it, or to anybody if nobody does any more: who has it listens
// on the subject of its own.
func (a *admission) hold(who subject.Agent) verdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, gone := a.revoked[who.Key]; gone {
		return refused
	}
	h, held := a.holders[who.Name]
	if held && h.key != who.Key && a.busy(who.Name, h) {
		return taken
	}
	if !held && len(a.holders) >= a.most {
		a.forget()
		if len(a.holders) >= a.most {
			return refused
		}
	}
	a.holders[who.Name] = holder{who.Key, a.now()}
	return admitted
}

// busy says whether a holder is there, or may still be about to listen.
func (a *admission) busy(name string, h holder) bool {
	return a.now().Sub(h.since) < subscribeTime || a.listens(subject.Agent{Fleet: a.file.Fleet, Name: name, Key: h.key}.Command())
}

// forget drops the names of those who are gone.
func (a *admission) forget() {
	for name, h := range a.holders {
		if !a.busy(name, h) {
			delete(a.holders, name)
		}
	}
}

// revoke admits a key no more. That so many are remembered is a bound: who has the token can
// draw a new key whenever it likes.
func (a *admission) revoke(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.revoked) < a.most {
		a.revoked[key] = struct{}{}
	}
}
