// Command zip packs all that is in a folder into a file, in the order of names: zip FILE FOLDER.
package main

import (
	"archive/zip"
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: zip FILE FOLDER")
		os.Exit(2)
	}
	if err := pack(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "zip:", err)
		os.Exit(1)
	}
}

func pack(file, folder string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	w := zip.NewWriter(f)
	if err := w.AddFS(os.DirFS(folder)); err != nil {
		return fmt.Errorf("pack %s: %w", folder, err)
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return f.Close()
}
