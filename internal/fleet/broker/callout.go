package broker

import (
	"fmt"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/hopbench/hopbench/internal/fleet/join"
	"github.com/hopbench/hopbench/internal/fleet/subject"
)

// clusterAccount is the account that a fleet has in a cluster of somebody else's.
const clusterAccount = "hopbench"

// maxRequest bounds what is read of a server's question, in bytes.
const maxRequest = 64 << 10

// Callout admits the agents of a fleet to a NATS cluster of somebody else's, whose servers ask
// who may enter (auth callout), as the broker of this process admits them.
type Callout struct {
	*admission
	issuer nkeys.KeyPair
}

// NewCallout makes a Callout. Listens says whether somebody reads a subject now.
func NewCallout(secret join.Secret, maxAgents int, listens func(subject string) bool) (*Callout, error) {
	issuer, err := clusterKey(secret, nkeys.PrefixByteAccount)
	if err != nil {
		return nil, err
	}
	a := newAdmission(secret.File, "", maxAgents)
	a.listens = listens
	return &Callout{admission: a, issuer: issuer}, nil
}

// clusterKey is a key of a fleet at a cluster: an account's, which signs who is admitted, or a
// user's, which is the coordinator's.
func clusterKey(secret join.Secret, prefix nkeys.PrefixByte) (nkeys.KeyPair, error) {
	seed, err := secret.Derive(fmt.Sprintf("hopbench/1 nkey %d", prefix))
	if err != nil {
		return nil, err
	}
	pair, err := nkeys.FromRawSeed(prefix, seed[:])
	if err != nil {
		return nil, fmt.Errorf("make the fleet's key at its cluster: %w", err)
	}
	return pair, nil
}

// ClusterLogin is the coordinator's key at a cluster: its public half, and what signs with it.
func ClusterLogin(secret join.Secret) (public string, sign func([]byte) ([]byte, error), err error) {
	pair, err := clusterKey(secret, nkeys.PrefixByteUser)
	if err != nil {
		return "", nil, err
	}
	public, err = pair.PublicKey()
	return public, pair.Sign, err
}

// ClusterConfig is what the administrator of a cluster adds to the configuration of each of
// its servers, for a fleet to join there.
func ClusterConfig(secret join.Secret) (string, error) {
	user, _, err := ClusterLogin(secret)
	if err != nil {
		return "", err
	}
	pair, err := clusterKey(secret, nkeys.PrefixByteAccount)
	if err != nil {
		return "", err
	}
	issuer, err := pair.PublicKey()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`accounts { %[1]s { jetstream: enabled, users: [ { nkey: %[2]s } ] } }
authorization { auth_callout { issuer: %[3]s, account: %[1]s, allowed_accounts: [ %[1]s ], auth_users: [ %[2]s ] } }
`, clusterAccount, user, issuer), nil
}

// Answer says to a server of the cluster who may enter, by what it says of a connection. It
// says nothing to what is no question of a server's.
func (c *Callout) Answer(question []byte) []byte {
	if len(question) > maxRequest {
		return nil
	}
	asked, err := jwt.DecodeAuthorizationRequestClaims(string(question))
	if err != nil {
		return nil
	}
	problems := jwt.CreateValidationResults()
	if asked.Validate(problems); problems.IsBlocking(true) || !nkeys.IsValidPublicServerKey(asked.Server.ID) {
		return nil
	}
	answer := jwt.NewAuthorizationResponseClaims(asked.UserNkey)
	answer.Audience = asked.Server.ID
	o := asked.ConnectOptions
	who, v := c.decide(claim{user: o.Username, password: o.Password, key: o.Nkey, signature: o.SignedNonce, nonce: []byte(asked.ClientInformation.Nonce)})
	if v == admitted || v == taken {
		answer.Jwt, err = c.user(asked.UserNkey, who, v)
	}
	if answer.Jwt == "" || err != nil {
		answer.Error = "it does not prove the token of the fleet"
	}
	text, err := answer.Encode(c.issuer)
	if err != nil {
		return nil
	}
	return []byte(text)
}

// user is what an agent may do, as the cluster wants it.
func (c *Callout) user(key string, who subject.Agent, v verdict) (string, error) {
	u := jwt.NewUserClaims(key)
	u.Name, u.Audience = who.Name, clusterAccount
	if v == admitted {
		u.Pub.Allow.Add(who.Join(), who.Event())
		u.Sub.Allow.Add(who.Command())
	} else {
		u.Pub.Deny.Add(">")
		u.Sub.Deny.Add(">")
		u.Expires = c.now().Add(refusedTime).Unix()
	}
	return u.Encode(c.issuer)
}

// Noted says that an agent is there, which may have been admitted before this coordinator
// began: its name is its own.
func (c *Callout) Noted(who subject.Agent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, held := c.holders[who.Name]; !held && len(c.holders) < c.most {
		c.holders[who.Name] = holder{who.Key, c.now()}
	}
}

// Admits says whether an agent was not expelled and has its name.
func (c *Callout) Admits(who subject.Agent) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, gone := c.revoked[who.Key]
	h, held := c.holders[who.Name]
	return !gone && (!held || h.key == who.Key)
}

// Expel admits an agent no more. Its connection, which is the cluster's, stays, and nobody
// listens to it.
func (c *Callout) Expel(a subject.Agent) error {
	c.revoke(a.Key)
	return nil
}
