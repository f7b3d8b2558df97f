// Command extras writes what packages have besides the program into a folder: manual pages
// (man), completion (completion), and the unit of a server (systemd).
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra/doc"

	"github.com/hopbench/hopbench/internal/cli"
	"github.com/hopbench/hopbench/internal/service"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "extras: name the folder to write into")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "extras:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	// The same sources make the same pages (https://reproducible-builds.org/specs/source-date-epoch).
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("read the pages' date from SOURCE_DATE_EPOCH: %w", err)
	}
	date := time.Unix(seconds, 0).UTC()
	for _, name := range []string{"man", "completion", "systemd"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return err
		}
	}
	root := cli.Command()
	root.InitDefaultCompletionCmd()
	header := &doc.GenManHeader{Section: "1", Date: &date, Source: "hopbench", Manual: "hopbench"}
	completion := func(name string) string { return filepath.Join(dir, "completion", name) }
	return errors.Join(
		root.GenBashCompletionFileV2(completion("hopbench.bash"), true),
		root.GenZshCompletionFile(completion("_hopbench")),
		root.GenFishCompletionFile(completion("hopbench.fish"), true),
		root.GenPowerShellCompletionFileWithDesc(completion("hopbench.ps1")),
		doc.GenManTree(root, header, filepath.Join(dir, "man")),
		os.WriteFile(filepath.Join(dir, "systemd", service.ServerUnitName), []byte(service.ServerUnit()), 0o644),
	)
}
