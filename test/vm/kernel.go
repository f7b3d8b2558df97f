package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// kernelPackage depends on the package of Debian's newest cloud kernel, whose
// name has the version.
const kernelPackage = "linux-image-cloud-amd64"

var kernelDependency = regexp.MustCompile(`(?m)^Depends: (linux-image-([0-9][a-z0-9.+-]*)) \(= ([^ )]+)\)`)

// kernel is an unpacked kernel package.
type kernel struct {
	release string // as uname says it
	image   string
	modules string // folder that has modules.dep
}

// fetchKernel gets the kernel that apt knows as the newest, unless it is in the
// cache. It is unpacked, not installed: this machine boots as before.
func fetchKernel(ctx context.Context, cache string) (kernel, error) {
	shown, err := command(ctx, "/", "apt-cache", "show", "--no-all-versions", kernelPackage)
	if err != nil {
		return kernel{}, fmt.Errorf("%w\napt knows no kernel; run `apt-get update` as root first", err)
	}
	m := kernelDependency.FindStringSubmatch(shown)
	if m == nil {
		return kernel{}, fmt.Errorf("%s does not say which kernel it depends on:\n%s", kernelPackage, shown)
	}
	name, release, version := m[1], m[2], m[3]
	folder := filepath.Join(cache, name+"_"+strings.ReplaceAll(version, "/", "_"))
	k := kernel{
		release: release, image: filepath.Join(folder, "boot", "vmlinuz-"+release),
		modules: filepath.Join(folder, "lib", "modules", release),
	}
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		err = unpackKernel(ctx, cache, folder, name+"="+version, release)
		if err != nil {
			return kernel{}, err
		}
	} else if err != nil {
		return kernel{}, err
	}
	return k, nil
}

// unpackKernel makes folder whole or not at all.
func unpackKernel(ctx context.Context, cache, folder, pkg, release string) (err error) {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	temporary, err := os.MkdirTemp(cache, "unpack")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	if _, err := command(ctx, temporary, "apt-get", "download", pkg); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(temporary, "*.deb"))
	if err != nil || len(files) != 1 {
		return fmt.Errorf("apt-get download left %q (%v), not one package", files, err)
	}
	unpacked := filepath.Join(temporary, "unpacked")
	if _, err := command(ctx, temporary, "dpkg-deb", "-x", files[0], unpacked); err != nil {
		return err
	}
	// The package's script does this on a machine that installs it.
	if _, err := command(ctx, temporary, "/sbin/depmod", "-b", unpacked,
		"-F", filepath.Join(unpacked, "boot", "System.map-"+release), release); err != nil {
		return err
	}
	return os.Rename(unpacked, folder)
}
