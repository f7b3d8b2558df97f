package meter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/gosnmp/gosnmp"

	"github.com/hopbench/hopbench/internal/printable"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
)

// Columns of IF-MIB (RFC 2863), to which the number of the interface is appended.
const (
	ifInDiscards     = ".1.3.6.1.2.1.2.2.1.13"
	ifOutDiscards    = ".1.3.6.1.2.1.2.2.1.19"
	ifName           = ".1.3.6.1.2.1.31.1.1.1.1"
	ifHCInOctets     = ".1.3.6.1.2.1.31.1.1.1.6"
	ifHCInUcastPkts  = ".1.3.6.1.2.1.31.1.1.1.7"
	ifHCOutOctets    = ".1.3.6.1.2.1.31.1.1.1.10"
	ifHCOutUcastPkts = ".1.3.6.1.2.1.31.1.1.1.11"
)

// Bounds of a conversation with a device.
const (
	snmpTimeout    = time.Second // of one request, which is made twice
	mostInterfaces = 10_000
	mostSecret     = 1 << 10 // bytes of the file
)

// interfaceMIB reads the counters of an interface by SNMPv3 or SNMPv2c.
type interfaceMIB struct {
	inventory.SNMPMeter
	device *gosnmp.GoSNMP // nil while there is no connection
	index  string         // of the interface
	name   string         // that it had; indexes are given anew when a device starts
}

// Read asks for all counters in one request. A failed one begins anew the next time.
func (m *interfaceMIB) Read(ctx context.Context) (Reading, error) {
	r, err := m.read(ctx)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return Reading{}, errors.Join(fmt.Errorf("ask %s by SNMP for interface %s: %w", m.Address, m.Interface, err), m.Close())
	}
	return r, nil
}

func (m *interfaceMIB) read(ctx context.Context) (Reading, error) {
	if m.device == nil {
		if err := m.connect(ctx); err != nil {
			return Reading{}, err
		}
	}
	m.device.Context = ctx
	// Closed, it waits no longer for an answer. The device may be forgotten by then.
	conn := m.device.Conn
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if m.index == "" {
		if err := m.find(); err != nil {
			return Reading{}, err
		}
	}
	return m.ask()
}

func (m *interfaceMIB) connect(ctx context.Context) error {
	host, port, err := net.SplitHostPort(m.Address)
	if err != nil {
		return err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return err
	}
	device := &gosnmp.GoSNMP{
		Target: host, Port: uint16(number), Transport: "udp",
		Context: ctx, Timeout: snmpTimeout, Retries: 1, MaxOids: gosnmp.MaxOids, MaxRepetitions: 25,
	}
	if err := m.identify(device); err != nil {
		return err
	}
	if err := device.Connect(); err != nil {
		return err
	}
	m.device = device
	return nil
}

// identify says as whom a device is asked.
func (m *interfaceMIB) identify(device *gosnmp.GoSNMP) error {
	if m.User == "" {
		community, err := readSecret(m.CommunityFile)
		if err != nil {
			return fmt.Errorf("read the community: %w", err)
		}
		device.Version, device.Community = gosnmp.Version2c, community
		return nil
	}
	password, err := readSecret(m.AuthFile)
	if err != nil {
		return fmt.Errorf("read the password of user %s: %w", m.User, err)
	}
	user := &gosnmp.UsmSecurityParameters{UserName: m.User, AuthenticationProtocol: gosnmp.SHA256, AuthenticationPassphrase: password}
	device.Version, device.SecurityModel, device.MsgFlags, device.SecurityParameters = gosnmp.Version3, gosnmp.UserSecurityModel, gosnmp.AuthNoPriv, user
	if m.PrivacyFile != "" {
		if user.PrivacyPassphrase, err = readSecret(m.PrivacyFile); err != nil {
			return fmt.Errorf("read the password of privacy: %w", err)
		}
		device.MsgFlags, user.PrivacyProtocol = gosnmp.AuthPriv, gosnmp.AES
	}
	return nil
}

// readSecret is the word in a file.
func readSecret(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostSecret+1))
	switch text = bytes.TrimSpace(text); {
	case err != nil:
		return "", err
	case len(text) == 0:
		return "", fmt.Errorf("%s: %w", file, errEmpty)
	case len(text) > mostSecret:
		return "", fmt.Errorf("%s is longer than %d bytes", file, mostSecret)
	}
	return string(text), nil
}

// find looks for the interface by its name, and if there is none of that name, takes it for
// a number.
func (m *interfaceMIB) find() error {
	rows := 0
	m.index, m.name = "", ""
	err := m.device.BulkWalk(ifName, func(v gosnmp.SnmpPDU) error {
		if rows++; rows > mostInterfaces {
			return fmt.Errorf("it has more than %d interfaces; give the number of one (ifIndex)", mostInterfaces)
		}
		name, _ := v.Value.([]byte)
		index := v.Name[min(len(ifName)+1, len(v.Name)):]
		if string(name) == m.Interface || m.name == "" && index == m.Interface {
			if string(name) == m.Interface && m.name == m.Interface {
				return errors.New("two interfaces have that name; give the number of one (ifIndex)")
			}
			m.index, m.name = index, string(name)
		}
		return nil
	})
	switch {
	case err != nil:
		m.index = ""
		return m.unanswered(err)
	case m.index == "" && rows == 0:
		return errors.New("it shows no interface to this community or user (ifName of IF-MIB)")
	case m.index == "":
		return fmt.Errorf("none of its %d interfaces has that name or number (ifName, ifIndex)", rows)
	}
	return nil
}

// unanswered says what silence, or a refusal, may mean. A device that knows no such user
// says so without the user's proof, which is no answer that could be believed.
func (m *interfaceMIB) unanswered(err error) error {
	switch {
	case errors.Is(err, gosnmp.ErrMaxRetriesExceeded):
		return fmt.Errorf("no answer within %v; the address, the community or a password is wrong, or packets do not get there: %w", snmpTimeout, err)
	case m.User != "":
		return fmt.Errorf("it may not know the user, or another password (authentication is by SHA-256, privacy by AES-128): %w", err)
	}
	return err
}

// ask reads the counters. The interface is the one towards the source, so that what came
// in there goes to the destination.
func (m *interfaceMIB) ask() (r Reading, err error) {
	totals := []struct {
		column string
		of     *float64
	}{
		{ifHCInOctets, &r.Totals.ForwardBytes}, {ifHCOutOctets, &r.Totals.BackwardBytes},
		{ifHCInUcastPkts, &r.Totals.ForwardPackets}, {ifHCOutUcastPkts, &r.Totals.BackwardPackets},
		{ifInDiscards, &r.Totals.DroppedPackets}, {ifOutDiscards, &r.Totals.DroppedPackets},
	}
	wanted := []string{ifName + "." + m.index}
	for _, t := range totals {
		wanted = append(wanted, t.column+"."+m.index)
	}
	asked := time.Now()
	answer, err := m.device.Get(wanted)
	if err != nil {
		return Reading{}, m.unanswered(err)
	}
	r.Taken, r.Timing = asked.Add(time.Since(asked)/2), Seen
	if answer.Error != gosnmp.NoError || len(answer.Variables) != len(wanted) {
		return Reading{}, fmt.Errorf("it answers %v with %d of %d values", answer.Error, len(answer.Variables), len(wanted))
	}
	if name, _ := answer.Variables[0].Value.([]byte); string(name) != m.name {
		return Reading{}, fmt.Errorf("interface %s is now %q; it was %q", m.index, printable.Line(string(name), 64), printable.Line(m.name, 64))
	}
	for i, t := range totals {
		v := answer.Variables[i+1]
		switch v.Type {
		case gosnmp.Counter64, gosnmp.Counter32:
			n, _ := gosnmp.ToBigInt(v.Value).Float64()
			*t.of += n
		default:
			if t.of != &r.Totals.DroppedPackets { // which not every device counts
				return Reading{}, fmt.Errorf("it has no counters of 64 bits for this interface (%s)", t.column)
			}
		}
	}
	return r, nil
}

// Interval is a second: devices bring their tables up to date every few.
func (m *interfaceMIB) Interval() time.Duration { return time.Second }

func (m *interfaceMIB) Close() error {
	if m.device == nil {
		return nil
	}
	err := m.device.Conn.Close()
	m.device, m.index = nil, ""
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
