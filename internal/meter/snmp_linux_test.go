package meter

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
	"github.com/hopbench/hopbench/internal/testutil"
)

const (
	community       = "for-hopbench"
	authPassword    = "proves-the-user"
	privacyPassword = "hides-the-rest"
)

// snmpDevice runs Debian's snmpd.
func snmpDevice(t *testing.T) (address string) {
	t.Helper()
	program, err := exec.LookPath("/usr/sbin/snmpd")
	testutil.Need(t, err == nil, "an SNMP agent (Debian's package snmpd)")
	dir := t.TempDir()
	config := filepath.Join(dir, "snmpd.conf")
	testutil.OK(t, os.WriteFile(config, []byte("[snmp] persistentDir "+dir+"\nrocommunity "+community+" 127.0.0.1\n"+
		"createUser hopbench SHA-256 "+authPassword+" AES "+privacyPassword+"\nrouser hopbench auth\n"+
		"createUser careful SHA-256 "+authPassword+" AES "+privacyPassword+"\nrouser careful priv\n"), 0o600))
	port, err := testutil.FreePort()
	testutil.OK(t, err)
	address = fmt.Sprintf("127.0.0.1:%d", port)
	run(t, program, "-f", "-Lo", "-m", "", "-C", "-c", config, "-p", filepath.Join(dir, "pid"), "-x", filepath.Join(dir, "agentx"), "udp:"+address)
	return address
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// of is a meter of an interface of a device.
func of(t *testing.T, address, name, word string) Meter {
	t.Helper()
	file := filepath.Join(t.TempDir(), "community")
	testutil.OK(t, os.WriteFile(file, []byte(word+"\n"), 0o600))
	m, err := newMeter(inventory.Hop{Name: "core", SNMP: &inventory.SNMPMeter{Address: address, Interface: name, CommunityFile: file}}, nil)
	testutil.OK(t, err)
	t.Cleanup(func() { testutil.OK(t, m.Close()) })
	return m
}

// A real device is asked for an interface by its name and by its number. What it says lies
// between what the kernel counted before the device was started and after it was asked.
func TestSNMP(t *testing.T) {
	testutil.InNamespaces(t, unix.CLONE_NEWNET, func(t *testing.T) {
		ip(t, "link", "set", "lo", "up")
		ip(t, "link", "add", "lan1", "type", "veth", "peer", "name", "lan2")
		for _, name := range []string{"lan1", "lan2"} {
			ip(t, "link", "set", name, "up")
		}
		// Only lan1 sends: nobody at lan2 has that address.
		ip(t, "address", "add", "10.9.9.1/24", "dev", "lan1")
		ip(t, "neighbour", "add", "10.9.9.2", "lladdr", "02:00:00:00:00:02", "dev", "lan1")
		c, err := net.Dial("udp", "10.9.9.2:9")
		testutil.OK(t, err)
		defer c.Close()
		for range 100 {
			_, err := c.Write(make([]byte, 1000))
			testutil.OK(t, err)
		}
		before, err := hostinfo.ReadInterface("lan1")
		testutil.OK(t, err)
		address := snmpDevice(t)
		for _, name := range []string{"lan1", "lan2", "3", "2"} {
			r := awaitReading(t, of(t, address, name, community), func(Reading) bool { return true })
			after, err := hostinfo.ReadInterface("lan1")
			testutil.OK(t, err)
			// Packets that came in net-snmp counts from its second look on.
			sent, packets, other := r.Totals.BackwardBytes, r.Totals.BackwardPackets, r.Totals.ForwardBytes
			if name == "lan2" || name == "2" { // the number of a veth's peer is the lower one
				sent, packets, other = r.Totals.ForwardBytes, float64(after.SentPackets), r.Totals.BackwardBytes
			}
			if sent < float64(before.SentBytes) || sent > float64(after.SentBytes) || packets < 100 || packets > float64(after.SentPackets) || other >= sent/2 || r.Timing != Seen {
				t.Errorf("%s says %+v; the kernel said %+v and then %+v", name, r.Totals, before, after)
			}
		}
		for name, says := range map[string]string{"lan3": "none of its 3 interfaces has that name or number", "99": "none of its 3 interfaces"} {
			if _, err := of(t, address, name, community).Read(t.Context()); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "ask "+address+" by SNMP for interface "+name) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := of(t, address, "lan1", "another").Read(t.Context()); err == nil || !strings.Contains(err.Error(), "the address, the community or a password is wrong") {
			t.Errorf("another community: %v", err)
		}
	})
}

// A device is asked as a user whose password is proven, with and without encryption, and
// says who is refused.
func TestSNMPv3(t *testing.T) {
	testutil.InNamespaces(t, unix.CLONE_NEWNET, func(t *testing.T) {
		ip(t, "link", "set", "lo", "up")
		address := snmpDevice(t)
		as := func(user, auth, privacy string) Meter {
			m := inventory.SNMPMeter{Address: address, Interface: "lo", User: user, AuthFile: filepath.Join(t.TempDir(), "auth")}
			testutil.OK(t, os.WriteFile(m.AuthFile, []byte(auth+"\n"), 0o600))
			if privacy != "" {
				m.PrivacyFile = filepath.Join(t.TempDir(), "privacy")
				testutil.OK(t, os.WriteFile(m.PrivacyFile, []byte(privacy+"\n"), 0o600))
			}
			meter, err := newMeter(inventory.Hop{Name: "core", SNMP: &m}, nil)
			testutil.OK(t, err)
			t.Cleanup(func() { testutil.OK(t, meter.Close()) })
			return meter
		}
		for _, m := range []Meter{as("hopbench", authPassword, ""), as("hopbench", authPassword, privacyPassword), as("careful", authPassword, privacyPassword)} {
			if r := awaitReading(t, m, func(r Reading) bool { return r.Totals.ForwardBytes > 0 }); r.Timing != Seen {
				t.Errorf("%+v", r)
			}
		}
		for name, m := range map[string]Meter{
			"an unknown user": as("nobody", authPassword, privacyPassword), "another password": as("hopbench", "another-password", privacyPassword),
			"another password of privacy": as("hopbench", authPassword, "another-password"), "too little security": as("careful", authPassword, ""),
		} {
			_, err := m.Read(t.Context())
			if err == nil || strings.Contains(err.Error(), authPassword) || strings.Contains(err.Error(), privacyPassword) || !strings.Contains(err.Error(), "password") && !strings.Contains(err.Error(), "user") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// A device that is silent is not waited for when nobody waits any more, and one that
// starts to answer is asked again.
func TestSNMPOfSilence(t *testing.T) {
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	testutil.OK(t, err)
	defer silent.Close()
	m := of(t, silent.LocalAddr().String(), "lan1", community)
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		heard := make(chan error, 1)
		go func() {
			_ = silent.SetReadDeadline(time.Now().Add(time.Minute))
			_, _, err := silent.ReadFrom(make([]byte, 1500))
			cancel()
			heard <- err
		}()
		if _, err := m.Read(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		testutil.OK(t, <-heard)
	}
}

// A reading whose time is up while it ends for another reason does no harm.
func TestSNMPOfSilenceInTime(t *testing.T) {
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	testutil.OK(t, err)
	defer silent.Close()
	m := of(t, silent.LocalAddr().String(), "lan1", community).(*interfaceMIB)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 1000 {
		testutil.OK(t, m.connect(t.Context()))
		if _, err := m.Read(over); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
	}
}

func TestCommunity(t *testing.T) {
	file := filepath.Join(t.TempDir(), "community")
	for text, says := range map[string]string{"": "it is empty", " \n": "it is empty", strings.Repeat("x", 2000): "longer than", " word \n": ""} {
		testutil.OK(t, os.WriteFile(file, []byte(text), 0o600))
		word, err := readSecret(file)
		if (err != nil) != (says != "") || err != nil && !strings.Contains(err.Error(), says) || err == nil && word != "word" {
			t.Errorf("%.10q: %q, %v", text, word, err)
		}
	}
}
