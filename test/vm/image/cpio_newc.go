// Package image writes the initial RAM file system that a virtual machine boots
// with: an archive of files, programs with the libraries that they load, and
// kernel modules with those that they need.
package image

import (
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// The types of files, as in the mode of stat(2).
const (
	typeDirectory = 0o040000
	typeFile      = 0o100000
	typeLink      = 0o120000
)

// Archive writes a cpio archive in the format "newc", which the kernel unpacks
// as its first root file system (Documentation/driver-api/early-userspace/
// buffer-format.rst of the Linux sources). Everything belongs to root.
type Archive struct {
	w     io.Writer
	known map[string]bool // what is in it
	inode uint64
	size  int64
	err   error // the first, which ends it
}

// NewArchive starts one.
func NewArchive(w io.Writer) *Archive {
	return &Archive{w: w, known: map[string]bool{"/": true}}
}

// Has says whether a path is in the archive.
func (a *Archive) Has(name string) bool { return a.known[path.Clean("/"+name)] }

// File adds a file with its permissions, and the directories above it.
func (a *Archive) File(name string, permissions uint32, content []byte) error {
	return a.add(name, typeFile|permissions&0o7777, content)
}

// Link adds a symbolic link.
func (a *Archive) Link(name, target string) error {
	return a.add(name, typeLink|0o777, []byte(target))
}

// Directory adds one that is there already only if it is new.
func (a *Archive) Directory(name string, permissions uint32) error {
	if a.Has(name) {
		return a.err
	}
	return a.add(name, typeDirectory|permissions&0o7777, nil)
}

func (a *Archive) add(name string, mode uint32, content []byte) error {
	name = path.Clean("/" + name)
	if a.known[name] {
		return fmt.Errorf("%s is in the archive already", name)
	}
	if err := a.Directory(path.Dir(name), 0o755); err != nil {
		return err
	}
	a.known[name] = true
	return a.entry(strings.TrimPrefix(name, "/"), mode, content)
}

// Close ends the archive. It does not close what it was written to.
func (a *Archive) Close() error {
	if err := a.entry("TRAILER!!!", 0, nil); err != nil {
		return err
	}
	a.err = errors.New("the archive is closed")
	return nil
}

// entry writes a header of 110 bytes, the name with its NUL and the content,
// each filled up to a multiple of four bytes.
func (a *Archive) entry(name string, mode uint32, content []byte) error {
	if uint64(len(content)) >= 1<<32 {
		return fmt.Errorf("%s: an archive takes files up to 4 GiB", name)
	}
	a.inode++
	links := 1
	if mode&typeDirectory == typeDirectory {
		links = 2
	}
	// ino mode uid gid nlink mtime filesize devmajor devminor rdevmajor rdevminor namesize check
	a.write(fmt.Appendf(nil, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
		a.inode, mode, 0, 0, links, 0, len(content), 0, 0, 0, 0, len(name)+1, 0, name))
	a.write(make([]byte, -a.size&3))
	a.write(content)
	a.write(make([]byte, -a.size&3))
	return a.err
}

func (a *Archive) write(b []byte) {
	if a.err != nil {
		return
	}
	n, err := a.w.Write(b)
	a.size += int64(n)
	a.err = err
}
