// Package servicebustest has a stand-in for Azure Service Bus, for tests.
package servicebustest
