// Package servicebustest has a stand-in for Azure Service Bus, for tests.
package servicebustest

import "go.uber.org/goleak"

// Renewers are what azservicebus 1.11 may leave behind: where a call that connects anew is
// given up, and two others wait for it, both connect, one after the other, and the first's
// renewer of its token is forgotten (AMQPLinksImpl.Get does not look again once it has the
// lock). It ends when it is next due, at most 5 minutes after the client was closed.
var Renewers = goleak.IgnoreTopFunction("github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/internal.(*Namespace).startNegotiateClaimRenewer.func3")
