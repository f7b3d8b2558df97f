package image

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// libraryFolders is where Debian's loader looks without being told (ld.so(8)
// and /etc/ld.so.conf.d of libc6), and where it has the libraries of systemd from, which
// name each other without the folder that its programs name.
var libraryFolders = []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib", "/usr/local/lib", "/usr/lib/x86_64-linux-gnu/systemd"}

// mergedRoots are links into /usr, as on any Debian since version 12.
var mergedRoots = []string{"bin", "sbin", "lib", "lib64"}

// MergeUsr adds the links of the top directory into /usr.
func (a *Archive) MergeUsr() error {
	for _, name := range mergedRoots {
		if err := errors.Join(a.Directory("/usr/"+name, 0o755), a.Link("/"+name, "usr/"+name)); err != nil {
			return err
		}
	}
	return nil
}

// merged is the path below /usr that name is a link to.
func merged(name string) string {
	for _, root := range mergedRoots {
		if strings.HasPrefix(name, "/"+root+"/") {
			return "/usr" + name
		}
	}
	return name
}

// Program adds a program of this machine at its own place with the libraries
// and the loader that it needs.
func (a *Archive) Program(name string) error {
	found, err := exec.LookPath(name)
	if err != nil {
		return err
	}
	return a.binary(found)
}

// binary adds an ELF file, or a script as it is, by the path at which it is
// looked for. What a link points to takes the link's place.
func (a *Archive) binary(file string) error {
	place := merged(path.Clean(file))
	if a.Has(place) {
		return nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := a.File(place, 0o755, content); err != nil {
		return err
	}
	if !bytes.HasPrefix(content, []byte(elf.ELFMAG)) {
		return nil
	}
	needs, err := loaded(file)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, other := range needs {
		if err := a.binary(other); err != nil {
			return fmt.Errorf("%s needs it: %w", file, err)
		}
	}
	return nil
}

// loaded are the files that the kernel and the loader read for an ELF file: its
// interpreter and its shared libraries.
func loaded(file string) ([]string, error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var files []string
	if section := f.Section(".interp"); section != nil {
		name, err := section.Data()
		if err != nil {
			return nil, fmt.Errorf("read its interpreter: %w", err)
		}
		files = append(files, strings.TrimRight(string(name), "\x00"))
	}
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return nil, fmt.Errorf("read its libraries: %w", err)
	}
	runPath, err := f.DynString(elf.DT_RUNPATH)
	if err != nil {
		return nil, fmt.Errorf("read its library path: %w", err)
	}
	for _, library := range libraries {
		found, err := findLibrary(library, append(runPath, libraryFolders...))
		if err != nil {
			return nil, err
		}
		files = append(files, found)
	}
	return files, nil
}

func findLibrary(name string, folders []string) (string, error) {
	for _, folder := range folders {
		file := filepath.Join(folder, name)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			return file, nil
		}
	}
	return "", fmt.Errorf("its library %s is in none of %s", name, strings.Join(folders, ", "))
}
