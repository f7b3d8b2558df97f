package lab

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/lab/message"
	"golang.org/x/sys/unix"
)

// socketIn is where a lab of a name listens.
func socketIn(folder, name string) *net.UnixAddr {
	return &net.UnixAddr{Name: filepath.Join(folder, name), Net: "unix"}
}

func dial(folder, name string) (*net.UnixConn, error) {
	return net.DialUnix("unix", nil, socketIn(folder, name))
}

// maxFolder is how long the path of a folder may be in bytes: with the name of a
// lab it fits sun_path of unix(7), which is 108 with the zero at the end.
const maxFolder = 107 - 1 - 64

// folders are those in which labs of this user may listen, the best first. Who
// publishes takes the first that will do; who joins looks into all, because the
// environment of another shell may differ.
func folders() []string {
	var all []string
	uid := os.Geteuid()
	if uid == 0 {
		all = append(all, "/run/hopbench")
	}
	// Where a session's folder is not said, it is that of systemd and elogind.
	session := cmp.Or(os.Getenv("XDG_RUNTIME_DIR"), fmt.Sprintf("/run/user/%d", uid))
	own := filepath.Join(session, "hopbench")
	if filepath.IsAbs(own) && len(own) <= maxFolder {
		if f, err := openPrivate(session); err == nil {
			f.Close()
			all = append(all, own)
		}
	}
	return append(all, fmt.Sprintf("/tmp/hopbench-%d", uid))
}

// openPrivate opens a folder that no other user can enter.
func openPrivate(path string) (*os.File, error) {
	f, err := os.OpenFile(path, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	var s unix.Stat_t
	if err = unix.Fstat(int(f.Fd()), &s); err == nil && (int(s.Uid) != os.Geteuid() || s.Mode&0o777 != 0o700) {
		err = fmt.Errorf("%s is of user %d and has mode %#o; it must be of user %d and closed to others: chmod 700 it, or remove it", path, s.Uid, s.Mode&0o777, os.Geteuid())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// lockFolder has one process at a time look at the sockets of a folder and change
// them. The lock ends with the file.
func lockFolder(path string) (*os.File, error) {
	f, err := openPrivate(path)
	if err != nil {
		return nil, err
	}
	for {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return f, nil
}

// living are the names of the sockets of a locked folder at which somebody
// listens. It removes the others, which labs left that were killed.
func living(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.Type() != os.ModeSocket || !publishedName.MatchString(e.Name()) {
			continue
		}
		conn, err := dial(folder, e.Name())
		switch {
		case errors.Is(err, unix.ECONNREFUSED):
			if err := os.Remove(filepath.Join(folder, e.Name())); err != nil {
				return nil, err
			}
		case errors.Is(err, unix.ENOENT): // it has just closed
		default: // also one that is too busy to answer
			names = append(names, e.Name())
		}
		if err == nil {
			conn.Close()
		}
	}
	return names, nil
}

// listen makes the socket of a lab in the first folder that will do.
func listen(name string) (*net.UnixListener, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	var refused []error
	for _, folder := range folders() {
		if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			refused = append(refused, err)
			continue
		}
		lock, err := lockFolder(folder)
		if err != nil {
			refused = append(refused, err)
			continue
		}
		defer lock.Close()
		names, err := living(folder)
		if err != nil {
			return nil, fmt.Errorf("look for labs in %s: %w", folder, err)
		}
		if slices.Contains(names, name) {
			return nil, fmt.Errorf("another lab has that name: %w", unix.EADDRINUSE)
		}
		return net.ListenUnix("unix", socketIn(folder, name))
	}
	return nil, fmt.Errorf("there is no folder for its socket: %w", errors.Join(refused...))
}

// Running lists the names of this user's published labs on this machine.
func Running() ([]string, error) {
	var names []string
	for _, folder := range folders() {
		lock, err := lockFolder(folder)
		if err != nil {
			continue // no lab of this user is where others can enter
		}
		here, err := living(folder)
		lock.Close()
		if err != nil {
			return nil, fmt.Errorf("look for labs in %s: %w", folder, err)
		}
		names = append(names, here...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// join connects to a published lab.
func join(name string) (*message.Conn, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	for _, folder := range folders() {
		f, err := openPrivate(folder)
		if err != nil {
			continue // as for Running
		}
		f.Close()
		conn, err := dial(folder, name)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("join lab %s: %w", name, err)
		}
		// Do not hand descriptors to anybody else.
		if err := ownPeer(conn); err != nil {
			return nil, errors.Join(fmt.Errorf("join lab %s: %w", name, err), conn.Close())
		}
		return &message.Conn{UnixConn: conn}, nil
	}
	there := "none is up"
	if names, err := Running(); err == nil && len(names) > 0 {
		there = "there is " + strings.Join(names, ", ")
	}
	return nil, fmt.Errorf("no lab %q is up here (%s)", name, there)
}
