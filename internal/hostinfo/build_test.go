package hostinfo

import (
	"runtime/debug"
	"testing"
)

func TestBuild(t *testing.T) {
	settings := []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"},
		{Key: "vcs.time", Value: "2026-11-24T00:00:00Z"},
		{Key: "vcs.modified", Value: "true"},
	}
	for name, c := range map[string]struct {
		module, version, commit string
		settings                []debug.BuildSetting
		want                    Build
	}{
		"in a repository": {module: "v1.2.3", settings: settings,
			want: Build{Version: "v1.2.3", Commit: "0123456789abcdef0123456789abcdef01234567", CommitTime: "2026-11-24T00:00:00Z", Modified: true}},
		"without one":                   {want: Build{Version: "(devel)"}},
		"go install of a tag":           {module: "v1.2.3", want: Build{Version: "v1.2.3"}},
		"go install of a commit":        {module: "v0.0.0-20261124001122-abcdef012345", want: Build{Version: "v0.0.0-20261124001122-abcdef012345", Commit: "abcdef012345"}},
		"go install of one after a tag": {module: "v1.2.4-0.20261124001122-abcdef012345+dirty", want: Build{Version: "v1.2.4-0.20261124001122-abcdef012345+dirty", Commit: "abcdef012345"}},
		"a tag with a hyphen":           {module: "v1.2.3-rc.1", want: Build{Version: "v1.2.3-rc.1"}},
		"the linker was told": {module: "(devel)", version: "v2.0.0", commit: "feedfeedfeed",
			want: Build{Version: "v2.0.0", Commit: "feedfeedfeed"}},
	} {
		got := buildOf(&debug.BuildInfo{Main: debug.Module{Version: c.module}, Settings: c.settings}, c.version, c.commit)
		if got.Go == "" || got.OS == "" || got.Arch == "" {
			t.Errorf("%s: no Go, system or processor: %+v", name, got)
		}
		got.Go, got.OS, got.Arch = "", "", ""
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
