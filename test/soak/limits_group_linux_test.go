package soak

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hopbench/hopbench/internal/testutil"
)

func TestWhereAControlGroupIsMade(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"memory/job/memory.limit_in_bytes":                            "1\n",
		"cgroup.subtree_control":                                      "cpu io memory pids\n",
		"system.slice/cgroup.subtree_control":                         "cpu memory pids\n",
		"system.slice/runner.service/cgroup.subtree_control":          "\n",
		"system.slice/other.service/inner/cgroup.subtree_control":     "\n",
		"system.slice/other.service/cgroup.subtree_control":           "memory_other\n",
		"undivided/memory/job/memory.limit_in_bytes":                  "1\n",
		"undivided/user.slice/session-1.scope/cgroup.subtree_control": "\n",
	} {
		path := filepath.Join(root, name)
		testutil.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testutil.OK(t, os.WriteFile(path, []byte(text), 0o644))
	}
	for _, c := range []struct {
		root, text, dir string
		v2              bool
	}{
		{"", "9:cpu,memory:/job\n0::/\n", "memory/job", false},
		{"", "9:memory:/gone\n", "", false},
		{"", "0::/system.slice/runner.service\n", "system.slice", true},
		{"", "0::/system.slice/other.service/inner\n", "system.slice", true},
		{"", "0::/\n", ".", true},
		{"undivided", "0::/user.slice/session-1.scope\n", "", false},
	} {
		dir, v2, err := parentGroup(filepath.Join(root, c.root), c.text)
		if c.dir == "" {
			if err == nil {
				t.Errorf("%q: %s, want none", c.text, dir)
			}
			continue
		}
		if err != nil || dir != filepath.Join(root, c.root, c.dir) || v2 != c.v2 {
			t.Errorf("%q: %s, %v, %v; want %s, %v", c.text, dir, v2, err, c.dir, c.v2)
		}
	}
}
