package ftp_test

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/ftp"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// stockFTPServer runs a program of Debian's that serves folder to anonymous clients
// at a port, in the foreground, until the test ends.
func stockFTPServer(t *testing.T, port int, name string, args ...string) netip.AddrPort {
	t.Helper()
	var said bytes.Buffer
	c := exec.Command(name, args...)
	c.Stdout, c.Stderr = &said, &said
	testutil.OK(t, c.Start())
	exited := make(chan error, 1)
	go func() { exited <- c.Wait() }()
	t.Cleanup(func() {
		_ = c.Process.Kill()
		<-exited
	})
	at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port))
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if conn, err := net.Dial("tcp", at.String()); err == nil {
			_ = conn.Close()
			return at
		}
		select {
		case err := <-exited:
			exited <- err
			t.Fatalf("%s ended: %v\n%s", name, err, said.String())
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not listen on %v", name, at)
		}
	}
}

// program finds a program of a Debian package, also in the folders of
// administrators' programs.
func program(t *testing.T, name, debian string) string {
	t.Helper()
	for _, candidate := range []string{name, "/usr/sbin/" + name} {
		if path, err := exec.LookPath(candidate); err == nil {
			return path
		}
	}
	testutil.Need(t, false, name+" (Debian package "+debian+")")
	return ""
}

// published makes a folder with a file of so many bytes that anyone may read.
func published(t *testing.T, bytes int) (folder string, crc uint32) {
	t.Helper()
	folder, err := os.MkdirTemp("", "hopbench-ftp-")
	testutil.OK(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	content := make([]byte, bytes)
	for i := range content {
		content[i] = byte(i * i >> 7)
	}
	err = errors.Join(os.Chmod(folder, 0o755), os.WriteFile(filepath.Join(folder, "file.bin"), content, 0o644))
	testutil.OK(t, err)
	return folder, crc32.ChecksumIEEE(content)
}

// writeConfig writes a server's configuration next to what it serves.
func writeConfig(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "ftp.conf")
	testutil.OK(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

// A stock FTP server is as good a far end as this project's.
func TestFTPFromStockServer(t *testing.T) {
	const size = 20_000_003
	folder, crc := published(t, size)
	port := servertest.FreePorts(t, 1)
	// Run by who runs the test, it changes neither user nor root folder: paths
	// are relative to anon_root.
	at := stockFTPServer(t, port, program(t, "vsftpd", "vsftpd"), writeConfig(t, fmt.Sprintf(`listen=YES
listen_address=127.0.0.1
listen_port=%d
background=NO
anonymous_enable=YES
local_enable=NO
run_as_launching_user=YES
anon_root=%s
secure_chroot_dir=%s
xferlog_enable=NO
seccomp_sandbox=NO
`, port, folder, folder)))
	for _, segments := range []int{1, 8} {
		spec := measurement.Spec{Kind: measurement.FTP, FilePath: "file.bin", Flows: segments, FileCRC32: fmt.Sprintf("%08x", crc)}
		out, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: at}, nil)
		if err != nil {
			t.Fatalf("%d segments: %v", segments, err)
		}
		if out.Metrics["file_bytes"] != size || len(out.Flows) != segments || out.Metrics["goodput_bits_per_second"] <= 0 {
			t.Errorf("%d segments: %v, %d flows", segments, out.Metrics, len(out.Flows))
		}
		if !strings.Contains(out.Effective["ftp_server"], "vsFTPd") {
			t.Errorf("%d segments: the server is %q", segments, out.Effective["ftp_server"])
		}
	}
	spec := measurement.Spec{Kind: measurement.FTP, FilePath: "file.bin", FileCRC32: fmt.Sprintf("%08x", crc^1)}
	if _, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: at}, nil); err == nil || !strings.Contains(err.Error(), "was damaged") {
		t.Errorf("with another digest: %v", err)
	}
	spec = measurement.Spec{Kind: measurement.FTP, FilePath: "missing.bin"}
	if _, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: at}, nil); err == nil || !strings.Contains(err.Error(), "550") {
		t.Errorf("of a file that is not there: %v", err)
	}
}

// Stock clients fetch from this project's FTP server what it says it has.
func TestFTPToStockClients(t *testing.T) {
	const size = 20_000_003
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.OK(t, err)
	content := ftp.NewContent()
	server := ftp.NewServer(ln, ftp.ServerOptions{
		File: func(name string) (int64, bool) { return size, name == "file.bin" }, Content: content, MaxSessions: 20, MaxDuration: time.Minute,
	})
	done := make(chan error, 1)
	go func() { done <- server.Serve() }()
	defer func() {
		server.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	port := ln.Addr().(*net.TCPAddr).Port
	for name, command := range map[string]func(t *testing.T, to string) *exec.Cmd{
		"lftp pget": func(t *testing.T, to string) *exec.Cmd {
			return exec.Command(program(t, "lftp", "lftp"), "--norc", "-c", fmt.Sprintf(
				"set net:timeout 10; set net:max-retries 1; set xfer:clobber on; pget -n 8 ftp://127.0.0.1:%d/file.bin -o %s", port, to))
		},
		"curl": func(t *testing.T, to string) *exec.Cmd {
			return exec.Command(program(t, "curl", "curl"), "-sS", "--max-time", "30", "-o", to, fmt.Sprintf("ftp://127.0.0.1:%d/file.bin", port))
		},
		"curl, resumed": func(t *testing.T, to string) *exec.Cmd {
			// The digest of the whole proves that the rest came from its place; the
			// beginning comes from the server, too.
			head := exec.Command(program(t, "curl", "curl"), "-sS", "--max-time", "30", "-r", "0-12345677", "-o", to, fmt.Sprintf("ftp://127.0.0.1:%d/file.bin", port))
			if out, err := head.CombinedOutput(); err != nil {
				t.Fatalf("the beginning: %v\n%s", err, out)
			}
			return exec.Command(program(t, "curl", "curl"), "-sS", "--disable-epsv", "--max-time", "30", "-C", "-", "-o", to, fmt.Sprintf("ftp://127.0.0.1:%d/file.bin", port))
		},
	} {
		t.Run(name, func(t *testing.T) {
			to := filepath.Join(t.TempDir(), "got.bin")
			if out, err := command(t, to).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			got, err := os.ReadFile(to)
			testutil.OK(t, err)
			if len(got) != size || crc32.ChecksumIEEE(got) != content.CRC(0, size) {
				t.Errorf("%d bytes with CRC-32 %08x, want %d with %08x", len(got), crc32.ChecksumIEEE(got), size, content.CRC(0, size))
			}
		})
	}
}
