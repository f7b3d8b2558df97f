// Command image makes an OCI image of one program for several CPUs, from nothing and without
// a daemon, as a layout in a folder (https://github.com/opencontainers/image-spec/blob/main/image-layout.md):
//
//	image FOLDER VERSION COMMIT linux/amd64=PROGRAM linux/arm/v7=PROGRAM …
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func main() {
	if len(os.Args) < 5 {
		fmt.Fprintln(os.Stderr, "image: wants FOLDER VERSION COMMIT PLATFORM=PROGRAM …")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func write(folder, version, commit string, programs []string) error {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("read the image's date from SOURCE_DATE_EPOCH: %w", err)
	}
	made := time.Unix(seconds, 0).UTC()
	// https://github.com/opencontainers/image-spec/blob/main/annotations.md
	labels := map[string]string{
		"org.opencontainers.image.title":    "hopbench",
		"org.opencontainers.image.version":  version,
		"org.opencontainers.image.revision": commit,
		"org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.source":   "https://github.com/hopbench/hopbench",
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, argument := range programs {
		name, program, ok := strings.Cut(argument, "=")
		platform, err := v1.ParsePlatform(name)
		if !ok || err != nil {
			return errors.Join(fmt.Errorf("%q is no PLATFORM=PROGRAM", argument), err)
		}
		image, err := imageOf(program, *platform, made, labels)
		if err != nil {
			return fmt.Errorf("the image of %s: %w", name, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	index = mutate.Annotations(index, labels).(v1.ImageIndex)
	_, err = layout.Write(folder, index)
	return err
}

// imageOf is the image of a program. It runs as nobody: serve and test need no privileges, and
// a lab in a container needs more than a user anyway.
func imageOf(program string, platform v1.Platform, made time.Time, labels map[string]string) (v1.Image, error) {
	content, err := layerOf(program, made)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: made}, CreatedBy: "packaging/image"}}); err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, withRoot(image, &v1.ConfigFile{
		Created: v1.Time{Time: made}, OS: platform.OS, Architecture: platform.Architecture, Variant: platform.Variant,
		Config: v1.Config{
			Entrypoint: []string{"/hopbench"}, Cmd: []string{"--help"}, User: "65534:65534", Labels: labels,
			WorkingDir: "/tmp", ExposedPorts: map[string]struct{}{"5201/tcp": {}, "5201/udp": {}},
		},
	}))
}

// withRoot is a configuration with the layers and the history of an image.
func withRoot(image v1.Image, config *v1.ConfigFile) *v1.ConfigFile {
	if old, err := image.ConfigFile(); err == nil { // of an image in memory
		config.RootFS, config.History = old.RootFS, old.History
	}
	return config
}

// layerOf is a file system with the program and a folder for temporary files.
func layerOf(program string, made time.Time) ([]byte, error) {
	text, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, f := range []struct {
		header tar.Header
		text   []byte
	}{
		{tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}, nil},
		{tar.Header{Typeflag: tar.TypeReg, Name: "hopbench", Mode: 0o755}, text},
	} {
		f.header.ModTime, f.header.Size = made, int64(len(f.text))
		if err := w.WriteHeader(&f.header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.text); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return layer.Bytes(), nil
}
