package ftp

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"
	"path"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	library "github.com/fclairamb/ftpserverlib"
	"github.com/spf13/afero"
)

// files is the file system of a session: one folder, in which every file lies
// that ServerOptions.File knows, and nothing can be changed.
type files struct {
	afero.Fs // refuses what is not below
	x        *session
}

func newFiles(x *session) *files {
	return &files{Fs: afero.NewReadOnlyFs(afero.NewMemMapFs()), x: x}
}

// size finds a file by its path.
func (f *files) size(name string) (int64, error) {
	base := strings.TrimPrefix(path.Clean("/"+name), "/")
	if n, ok := f.x.s.o.File(base); ok {
		return n, nil
	}
	return 0, &os.PathError{Op: "find", Path: name, Err: os.ErrNotExist}
}

// Stat knows the folder and every file.
func (f *files) Stat(name string) (os.FileInfo, error) {
	if path.Clean("/"+name) == "/" {
		return info{name: "/", directory: true}, nil
	}
	n, err := f.size(name)
	if err != nil {
		return nil, err
	}
	return info{name: path.Base(name), size: n}, nil
}

// ReadDir is empty: there are too many files to be listed.
func (f *files) ReadDir(string) ([]os.FileInfo, error) { return nil, nil }

// ComputeHash is the digest of a range of a file.
func (f *files) ComputeHash(name string, algorithm library.HASHAlgo, from, to int64) (string, error) {
	size, err := f.size(name)
	if err != nil {
		return "", err
	}
	if algorithm != library.HASHAlgoCRC32 {
		return "", errors.New("only CRC32 is known here")
	}
	if from < 0 || to < from || to > size {
		return "", fmt.Errorf("bytes %d to %d are not in a file of %d bytes", from, to, size)
	}
	return fmt.Sprintf("%08x", f.x.s.o.Content.CRC(from, to-from)), nil
}

// GetHandle begins a transfer.
func (f *files) GetHandle(name string, flags int, offset int64) (library.FileTransfer, error) {
	size, err := f.size(name)
	if err != nil {
		return nil, err
	}
	s := f.x.s
	store := flags&(os.O_WRONLY|os.O_RDWR) != 0
	switch {
	case store != s.o.Store:
		return nil, &os.PathError{Op: "open", Path: name, Err: os.ErrPermission}
	case offset < 0 || offset > size || store && (offset != 0 || flags&os.O_APPEND != 0):
		return nil, fmt.Errorf("%s cannot begin at byte %d", name, offset)
	case !s.enter():
		// The server ends: closed at once, or the client is told that the file is to blame.
		return nil, errors.Join(os.ErrClosed, f.x.Close())
	}
	h := &handle{
		x: f.x, source: source{content: s.o.Content, offset: offset, size: size}, began: time.Now(),
		t: Transfer{Client: f.x.client, Store: store, Size: size, Offset: offset},
	}
	f.x.began(h)
	h.tell()
	return h, nil
}

// handle is one transfer.
type handle struct {
	source
	x      *session
	began  time.Time
	t      Transfer
	series series
	over   atomic.Bool
}

func (h *handle) tell() {
	defer h.x.guard(new(error)) // which would not be counted as ended
	if h.x.s.o.OnTransfer != nil {
		h.x.s.o.OnTransfer(h.t)
	}
}

// Seek goes to the offset that the library asked for with the handle already.
func (h *handle) Seek(offset int64, whence int) (int64, error) {
	if whence != io.SeekStart || offset != h.t.Offset {
		return 0, errors.ErrUnsupported
	}
	return offset, nil
}

// WriteTo sends the file.
func (h *handle) WriteTo(w io.Writer) (int64, error) {
	h.connected(w)
	n, err := h.source.WriteTo(w)
	h.t.Bytes, h.t.Err = n, err
	h.t.Cut = errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed)
	return n, err
}

// Write is what a library would use that does not know ReadFrom.
func (h *handle) Write(p []byte) (int, error) {
	at := time.Since(h.began)
	if h.t.Bytes+int64(len(p)) > h.t.Size {
		return 0, h.fail(fmt.Errorf("%w: more than the %d bytes of the file", ErrMalformed, h.t.Size))
	}
	h.t.Took = at
	h.t.Bytes += int64(len(p))
	h.t.CRC32 = crc32.Update(h.t.CRC32, crc32.IEEETable, p)
	h.series.add(at, len(p))
	return len(p), nil
}

// ReadFrom receives the file.
func (h *handle) ReadFrom(r io.Reader) (int64, error) {
	h.connected(r)
	buf := make([]byte, chunkBytes)
	var done int64
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if _, wrong := h.Write(buf[:n]); wrong != nil {
				return done, wrong
			}
			done += int64(n)
		}
		if errors.Is(err, io.EOF) {
			return done, nil
		}
		if err != nil {
			return done, h.fail(err)
		}
	}
}

func (h *handle) fail(err error) error {
	h.t.Err = err
	return err
}

// connected notes the data connection.
func (h *handle) connected(c any) {
	if d, ok := c.(*dataConn); ok {
		h.t.Local, h.t.Remote = d.Conn.LocalAddr().String(), d.Conn.RemoteAddr().String()
	}
}

// Close ends the transfer. That of a file that is not what had to be stored is an
// error, which the client is told.
func (h *handle) Close() error {
	if h.over.Swap(true) {
		return nil
	}
	if h.t.Store && h.t.Err == nil {
		if want := h.content.CRC(0, h.t.Size); h.t.Bytes != h.t.Size || h.t.CRC32 != want {
			h.t.Err = fmt.Errorf("%d bytes with CRC-32 %08x arrived, not %d with %08x", h.t.Bytes, h.t.CRC32, h.t.Size, want)
		}
	}
	h.t.Ended, h.t.Elapsed, h.t.Bins = true, time.Since(h.began), sum(&h.series)
	h.tell()
	h.x.ended(h.t.Bytes)
	h.x.s.busy.Done()
	if h.t.Store {
		return h.t.Err
	}
	return nil
}

// info is the folder or a file.
type info struct {
	name      string
	size      int64
	directory bool
}

func (i info) Name() string { return i.name }
func (i info) Size() int64  { return i.size }
func (i info) IsDir() bool  { return i.directory }
func (i info) Sys() any     { return nil }

// ModTime is the same always, as the bytes are.
func (i info) ModTime() time.Time { return time.Unix(0, 0).UTC() }

func (i info) Mode() os.FileMode {
	if i.directory {
		return os.ModeDir | 0o555
	}
	return 0o444
}
