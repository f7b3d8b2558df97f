// Package lab builds a testbed on this machine: nodes that are Linux network
// namespaces, joined by links, with the routes and the egress metering that an
// experiment's paths ask for. It needs no root and no external program, and
// whatever ends it, by whatever signal, the kernel removes all of it.
//
// FromExperiment lays paths out as a topology (package layout), Start has a
// supervisor make a plan of it (plan) and give that to the kernel (apply).
//
// # Processes
//
// Start re-executes the own binary as the supervisor, in new user, mount, pid,
// network, ipc and uts namespaces. The supervisor is process 1 of its pid
// namespace: when it ends, the kernel kills every process of the lab, and with
// the last of them (and the supervisor's open descriptors) the network
// namespaces and everything in them vanish. The supervisor itself ends when
// its caller does: the kernel sends SIGKILL (PR_SET_PDEATHSIG), and as a second
// guard it reads end-of-file from the control socket.
//
// A node is a network namespace held by a descriptor of the supervisor, so a
// plain router costs no process. A node that runs an agent has one child
// process; each link with delay, loss or a rate has one. The caller
// stays where it is, outside of all of them, and talks to an agent over the
// connection that Control returns. Publish has it answer other processes, of the
// same user and in the caller's own namespaces.
//
// The main function of a program that uses this package must call Main before
// it does anything else.
package lab
