package hostinfo

import (
	"regexp"
	"runtime"
	"runtime/debug"
	"sync"
)

// Set by the linker (-X) where archives and packages are made, whose version is not
// always one that Go would find.
var version, commit string

// Build is what a program was made from.
type Build struct {
	Version    string `json:"version"`               // of the module: a tag, a pseudo-version, or "(devel)"
	Commit     string `json:"commit,omitempty"`      // at least 12 hexadecimal digits; empty where nobody knows
	CommitTime string `json:"commit_time,omitempty"` // RFC 3339
	Modified   bool   `json:"modified,omitempty"`    // the files were not those of the commit
	Go         string `json:"go"`
	OS         string `json:"os"`
	Arch       string `json:"arch"`
}

// pseudo matches a pseudo-version (https://go.dev/ref/mod#pseudo-versions), which ends in
// the time and the first 12 digits of a commit.
var pseudo = regexp.MustCompile(`[-.]([0-9]{14})-([0-9a-f]{12})(\+.*)?$`)

// ThisBuild is the build of this program, read once: its version is told in every hello.
var ThisBuild = sync.OnceValue(func() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return buildOf(info, version, commit)
})

// buildOf goes by what the linker was told, else by the repository that was built in, else
// by the module's version, which is all that "go install module@version" has.
func buildOf(info *debug.BuildInfo, version, commit string) Build {
	b := Build{Version: version, Commit: commit, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if b.Version == "" {
		b.Version = info.Main.Version
	}
	if b.Version == "" {
		b.Version = "(devel)"
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			if b.Commit == "" {
				b.Commit = s.Value
			}
		case "vcs.time":
			b.CommitTime = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	if m := pseudo.FindStringSubmatch(b.Version); m != nil && b.Commit == "" {
		b.Commit = m[2]
	}
	return b
}

// Version is the version of this program.
func Version() string { return ThisBuild().Version }
