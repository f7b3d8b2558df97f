package hostinfo

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/testutil"
)

func TestRunnable(t *testing.T) {
	if n, err := parseRunnable([]byte("0.20 0.18 0.12 3/80 11206\n")); n != 3 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for _, text := range []string{"", "1 2 3", "1 2 3 x/4 5"} {
		if n, err := parseRunnable([]byte(text)); err == nil {
			t.Errorf("%q: %d", text, n)
		}
	}
	if n, err := readRunnable(); n < 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// The tasks of the whole machine are told with all of its CPUs, also by a process that may
// use one of them.
func TestLoadOfTheWholeMachine(t *testing.T) {
	const says = "CPUs of the machine: "
	if os.Getenv("HOPBENCH_TEST_ONE_CPU") != "" {
		_, cpus, _, err := OthersLoad()
		testutil.OK(t, err)
		fmt.Println(says + fmt.Sprint(cpus))
		return
	}
	text, err := os.ReadFile("/proc/stat")
	testutil.OK(t, err)
	want := bytes.Count(text, []byte("\ncpu"))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, one unix.CPUSet
	testutil.OK(t, unix.SchedGetaffinity(0, &all))
	for cpu := range len(all) * 64 {
		if all.IsSet(cpu) {
			one.Set(cpu)
			break
		}
	}
	testutil.OK(t, unix.SchedSetaffinity(0, &one)) // which a child takes over
	child := exec.Command(os.Args[0], "-test.run=^TestLoadOfTheWholeMachine$")
	child.Env = append(os.Environ(), "HOPBENCH_TEST_ONE_CPU=1")
	out, err := child.Output()
	testutil.OK(t, unix.SchedSetaffinity(0, &all))
	if err != nil || !strings.Contains(string(out), says+fmt.Sprint(want)+"\n") {
		t.Errorf("want %d CPUs, got %v: %s", want, err, out)
	}
}
