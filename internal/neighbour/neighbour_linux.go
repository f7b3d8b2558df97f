package neighbour

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// folderName is below the folder for temporary files.
	folderName = "hopbench-running"
	// patience is how long a neighbour may take to say who it is. One that was
	// stopped (SIGSTOP) answers later, and then knows of us.
	patience = time.Second
	// staleAfter is how old a socket must be at which nobody listens before it is
	// removed: one that is younger may be about to be listened at.
	staleAfter = time.Minute
	// maxCalled, maxOthers and maxBytes bound what others can make of the folder.
	maxCalled = 1000
	maxOthers = 100
	maxBytes  = 4096
)

// Presence is a run that others can find.
type Presence struct {
	self     []byte
	folder   *os.File
	name     string // of the socket
	listener *net.UnixListener
	done     sync.WaitGroup

	mu     sync.Mutex
	others []Run
}

// Join makes a run known to those that are under way on this machine, and to
// those that begin until Leave. When it returns, Others has the former.
func Join(self Run) (*Presence, error) {
	p := &Presence{name: fmt.Sprintf("%016x", rand.Uint64())}
	var err error
	if p.self, err = json.Marshal(self); err != nil {
		return nil, fmt.Errorf("say what this run is: %w", err)
	}
	if p.folder, err = openFolder(filepath.Join(os.TempDir(), folderName)); err != nil {
		return nil, err
	}
	if err := p.listen(); err != nil {
		return nil, errors.Join(fmt.Errorf("be found in %s: %w", p.folder.Name(), err), p.Leave())
	}
	p.callAll()
	return p, nil
}

// openFolder opens the folder that all users share, and makes it if need be.
func openFolder(path string) (*os.File, error) {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make the folder of running measurements: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("open the folder of running measurements: %w; remove it if it is no folder", err)
	}
	// As /tmp: everybody may put a socket there, and nobody take another's away.
	// It is asked of the open folder, which no other can have taken the place of.
	const shared = fs.ModeSticky | 0o777
	info, err := f.Stat()
	if err == nil && info.Sys().(*syscall.Stat_t).Uid == uint32(os.Geteuid()) && info.Mode()&(fs.ModeSticky|fs.ModePerm) != shared {
		err = f.Chmod(shared)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("share the folder of running measurements: %w", err), f.Close())
	}
	return f, nil
}

// path leads to an entry of the folder, however long the folder's own path is:
// a socket's address has 108 bytes (unix(7)).
func (p *Presence) path(name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", p.folder.Fd(), name)
}

func (p *Presence) listen() error {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: p.path(p.name)})
	if err != nil {
		return err
	}
	p.listener = listener
	p.done.Go(func() {
		for {
			conn, err := p.listener.AcceptUnix()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil { // such as no descriptor left: a neighbour is missed
				time.Sleep(patience / 10)
				continue
			}
			// One after the other: what a caller says waits for us in its socket.
			p.handshake(conn)
		}
	})
	return os.Chmod(p.path(p.name), 0o666) // other users, too
}

// sockets are those of the other runs. What cannot be read is not seen.
func (p *Presence) sockets() []fs.DirEntry {
	folder, err := os.Open(p.path("."))
	if err != nil {
		return nil
	}
	defer func() { _ = folder.Close() }() // opened for reading
	entries, _ := folder.ReadDir(maxCalled)
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Name() == p.name || e.Type() != fs.ModeSocket })
}

// callAll tells those who are there already.
func (p *Presence) callAll() {
	var calls sync.WaitGroup
	defer calls.Wait()
	for _, entry := range p.sockets() {
		calls.Go(func() {
			conn, err := net.DialTimeout("unix", p.path(entry.Name()), patience)
			if errors.Is(err, unix.ECONNREFUSED) {
				if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > staleAfter {
					_ = os.Remove(p.path(entry.Name())) // it may be another user's, who may do it
				}
			}
			if err == nil {
				p.handshake(conn.(*net.UnixConn))
			}
		})
	}
}

// handshake adds the run at the other end. One that says nothing counts, too.
func (p *Presence) handshake(conn *net.UnixConn) {
	if run, err := p.exchange(conn); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		p.add(run)
	}
}

// exchange sends what this run is and reads what the other is.
func (p *Presence) exchange(conn *net.UnixConn) (run Run, err error) {
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return run, err
	}
	// Who has left meanwhile cannot hear it, but has said who it was.
	if _, err := conn.Write(p.self); err == nil {
		_ = conn.CloseWrite()
	}
	text, err := io.ReadAll(io.LimitReader(conn, maxBytes))
	if err != nil {
		return run, err
	}
	return run, json.Unmarshal(text, &run)
}

func (p *Presence) add(run Run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := func(other Run) bool { return other.Experiment == run.Experiment && other.Started.Equal(run.Started) }
	if len(p.others) < maxOthers && !slices.ContainsFunc(p.others, known) {
		p.others = append(p.others, run)
	}
}

// Others are the runs that were under way at the same time so far, those of the
// same experiment and start once. What one did not say is empty.
func (p *Presence) Others() []Run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.others)
}

// Alive is how many other runs are under way at this moment. None of them is asked who
// it is, so that one that was stopped is not waited for.
func (p *Presence) Alive() int {
	alive := 0
	for _, entry := range p.sockets() {
		if conn, err := net.DialTimeout("unix", p.path(entry.Name()), patience); err == nil {
			alive++
			_ = conn.Close() // nothing was said
		}
	}
	return alive
}

// Leave ends the presence.
func (p *Presence) Leave() error {
	var err error
	if p.listener != nil {
		err = p.listener.Close() // removes the socket
		p.done.Wait()
	}
	return errors.Join(err, p.folder.Close())
}
