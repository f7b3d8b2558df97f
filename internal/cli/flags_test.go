package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
)

// ofIPerf3 are the flags of iperf3 3.21 with SSL and SCTP, and older names that it takes, "-s/--server" where both are there, with a value
// where one is needed; those behind "server:" are only a server's.
const ofIPerf3 = `
-p/--port=5201 -f/--format=m -i/--interval=1 -I/--pidfile=f -F/--file=1GB -A/--affinity=0 -B/--bind=127.0.0.1 --bind-dev=lo
-V/--verbose -J/--json --json-stream --json-stream-full-output --logfile=f --forceflush --timestamps --rcv-timeout=1 --snd-timeout=1
--cntl-ka -m/--mptcp -d/--debug -v/--version -h/--help
-c/--client=h -u/--udp --connect-timeout=1 -b/--bitrate=1G --pacing-timer=1 --fq-rate=1G -t/--time=1 -n/--bytes=1M -k/--blockcount=1
-l/--length=1400 --cport=9000 -P/--parallel=2 -R/--reverse --bidir -w/--window=64K -C/--congestion=cubic -M/--set-mss=1400 -N/--no-delay
-4/--version4 -6/--version6 -S/--tos=0xb8 --dscp=ef -L/--flowlabel=1 -Z/--zerocopy --skip-rx-copy -O/--omit=1 -T/--title=x
--extra-data=x --get-server-output --udp-counters-64bit --gsro --repeating-payload --dont-fragment
--sctp -X/--xbind=x --nstreams=1 --username=x --rsa-public-key-path=f --bandwidth=1G --linux-congestion=cubic --no-fq-socket-pacing
server: -s/--server -D/--daemon -1/--one-off --server-bitrate-limit=1G --idle-timeout=1 --server-max-duration=1
--rsa-private-key-path=f --authorized-users-path=f --time-skew-threshold=1 --use-pkcs1-padding`

// Each flag of iperf3, long or short, is taken, and the manual says so, or answered with what
// to write.
func TestFlagsOfIPerf3(t *testing.T) {
	manual, err := os.ReadFile("../../docs/iperf3.md")
	testutil.OK(t, err)
	taken := map[string]string{}
	for command, before := range map[string]string{"test": "in their short and long forms:\n`", "serve": "`hopbench serve` accepts `"} {
		_, after, _ := strings.Cut(string(manual), before)
		list, _, _ := strings.Cut(after, "`")
		taken[command] = " " + list + " "
	}
	client, server, _ := strings.Cut(ofIPerf3, "server:")
	server += " -i/--interval=1 -V/--verbose -J/--json -4/--version4 -6/--version6 -m/--mptcp --bind-dev=lo" // of both
	for command, list := range map[string]string{"test": client, "serve": server} {
		for _, flag := range strings.Fields(list) {
			flag, value, valued := strings.Cut(flag, "=")
			for _, written := range strings.Split(flag, "/") {
				args := []string{written}
				if valued && !strings.HasPrefix(written, "--") {
					args = append(args, value)
				} else if valued {
					args[0] += "=" + value
				}
				c, _, err := rootCommand(base.Streams{Out: new(bytes.Buffer), Err: new(bytes.Buffer)}).Find([]string{command})
				testutil.OK(t, err)
				err = c.ParseFlags(args)
				if err == nil || err == pflag.ErrHelp { //nolint:errorlint // its very value
					if first, _, _ := strings.Cut(flag, "/"); !strings.Contains(taken[command], " "+first+" ") && written != "--file" { // an FTP test's
						t.Errorf("docs/iperf3.md does not say that hopbench %s has %s", command, written)
					}
					continue
				}
				if text := base.FlagError(c, err).Error(); !answered(text) {
					t.Errorf("%s %s: %s", command, strings.Join(args, " "), text)
				}
			}
		}
	}
}

func answered(text string) bool {
	return !strings.HasSuffix(text, "--help") && !strings.Contains(text, "did you mean")
}

// The list above is that of the iperf3 that is installed, or of a later one.
func TestFlagsOfInstalledIPerf3(t *testing.T) {
	if _, err := exec.LookPath("iperf3"); err != nil {
		t.Skip("iperf3 is not installed")
	}
	help, err := exec.Command("iperf3", "--help").CombinedOutput()
	testutil.OK(t, err)
	found := regexp.MustCompile(`(?m)^ +(?:-\w, )?(--[a-z0-9-]+)`).FindAllSubmatch(help, -1)
	if len(found) < 30 {
		t.Fatalf("%d flags in\n%s", len(found), help)
	}
	for _, f := range found {
		name := string(f[1])
		if !regexp.MustCompile(regexp.QuoteMeta(name) + `([= \n]|$)`).MatchString(ofIPerf3) {
			t.Errorf("%s is not known here", name)
		}
	}
}

func TestFlagErrors(t *testing.T) {
	for line, want := range map[string]string{
		"test h --paralel 3":                   "did you mean --parallel?",
		"test h --quite":                       "did you mean --quiet?",
		"test h --xyzzy":                       "see hopbench test --help",
		"test h -c -5":                         "write 1 or more, or leave it out; see hopbench test --help",
		"test h -c 2.5":                        "it is not a number that this flag takes; see hopbench test --help",
		"serve --max-duration 60":              "it has no unit; write it as in 90s",
		"export . --file x":                    "export has no --file; see hopbench export --help",
		"results --title x":                    "see hopbench results --help",
		"export . --to postgres":               "--connection-file is missing, without which --to means nothing",
		"help tets":                            `did you mean "test"?`,
		"help lab swithc":                      `did you mean "switch"?`,
		"test -c 127.0.0.1":                    "hopbench test 127.0.0.1",
		"test h -n 10M":                        "--only ftp",
		"-s":                                   "hopbench serve --open",
		"-c h":                                 "hopbench test HOST",
		"test h -P 0":                          "write 1 or more",
		"test h -t 1ms":                        "1 flow of a profile: duration is 1ms; write a time from 10ms",
		"test h -t 6h":                         "RTT under load of a profile: a test of this length may send",
		"test h -P x":                          "not a number",
		"test :5201":                           "no host is named",
		"test ::1 -4":                          "the other version of IP",
		"test ::1 -B 127.0.0.1":                "127.0.0.1 cannot send to ::1",
		"run routing-appliance --ui :8080":     "--ui follows an equals sign: --ui=VALUE",
		"run --ui :8080 routing-appliance":     "--ui follows an equals sign: --ui=VALUE",
		"run a b":                              `does not take "b"; see hopbench run`,
		"run routing-appliance --quick --full": "--full and --quick exclude each other",
		"run routing-aplliance":                `did you mean "routing-appliance"?`,
		"run routing-appliance -t soon":        "soon",
		"run routing-appliance -t 0":           "nothing is measured in no time",
		"test 127.0.0.1 --token-file /nonexistent": "no such file",
		"rnu":                        `hopbench has no command "rnu"; did you mean "run"?`,
		"rnu --blocks 3":             `did you mean "run"?`,
		"lab swithc direct":          `did you mean "switch"?`,
		"testbed chekc --experiment": `hopbench testbed has no command "chekc"; did you mean "check"?`,
		"experiments shwo all":       `did you mean "show"?`,
		"agent instal":               `did you mean "install"?`,
		"completion bsh":             `did you mean "bash"?`,
		"doctor all":                 `hopbench doctor does not take "all"`,
		"results a b":                `hopbench results does not take "b"`,
		"watch routing-aplliance":    `did you mean "routing-appliance"?`,
	} {
		status, _, text := command(t, strings.Fields(line)...)
		if status != base.ExitUsage || !strings.Contains(text, want) || strings.Contains(text, "strconv") {
			t.Errorf("%s: status %d, %q; want %q", line, status, text, want)
		}
	}
	// Of files, those next to it.
	t.Chdir(t.TempDir())
	for _, name := range []string{"mine.yaml", "sub/office.yaml", "runs/before/x", "secret-token"} {
		testutil.OK(t, os.MkdirAll(filepath.Dir(name), 0o700))
		testutil.OK(t, os.WriteFile(name, nil, 0o600))
	}
	for line, want := range map[string]string{
		"run mnie.yaml": "did you mean mine.yaml?",
		"run mine":      "did you mean the file mine.yaml?",
		"run routing-appliance --testbed sub/offce.yaml":                 "did you mean sub/office.yaml?",
		"testbed check sub/offce.yaml":                                   "did you mean sub/office.yaml?",
		"testbed check sub/nothing.like.it":                              "hopbench testbed show hosts prints one",
		"report runs/befroe":                                             "did you mean runs/before?",
		"export runs/befroe":                                             "did you mean runs/before?",
		"compare runs/befroe runs/before":                                "did you mean runs/before?",
		"test 127.0.0.1:1 --token-file secret-tokn":                      "did you mean secret-token?",
		"run routing-appliance --testbed sub/office.yaml/not-a-folder-x": "not a directory",
	} {
		if status, _, text := command(t, strings.Fields(line)...); status != base.ExitUsage || !strings.Contains(text, want) || strings.Contains(text, "?;") {
			t.Errorf("%s: status %d, %q; want %q", line, status, text, want)
		}
	}
	for _, line := range []string{"--version", "-v", "version"} {
		if status, out, problems := command(t, line); status != base.ExitDone || !strings.HasPrefix(out, "hopbench ") || !strings.Contains(out, "result format") {
			t.Errorf("%s: status %d, %q %q", line, status, out, problems)
		}
	}
	var built struct {
		Version, Go, OS, Arch string
		Formats               map[string]string
	}
	status, out, problems := command(t, "version", "--json")
	if status != base.ExitDone {
		t.Fatalf("version --json: status %d, %s", status, problems)
	}
	testutil.OK(t, json.Unmarshal([]byte(out), &built))
	if built.Version == "" || built.Go != runtime.Version() || built.OS != runtime.GOOS || built.Arch != runtime.GOARCH || built.Formats["result"] != result.Format {
		t.Errorf("version --json: %s", out)
	}
}

// A file that cannot be an experiment is not read to its end.
func TestHugeExperiment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "disk.img")
	testutil.OK(t, os.WriteFile(file, nil, 0o600))
	testutil.OK(t, os.Truncate(file, 1<<40)) // of which nothing is on the disk
	if _, _, err := readExperiment(file); err == nil || base.Status(err, new(bytes.Buffer)) != base.ExitUsage {
		t.Error(err)
	}
}

// A flag without a text, which is what a variable that is not set leaves, is not taken for one that
// was left out.
func TestEmptyFlags(t *testing.T) {
	for _, line := range []string{
		"run aa-null --testbed=", "run all --only=", "run --resume= aa-null", "run aa-null -o ", "watch 127.0.0.1 --only=", "watch 127.0.0.1 --name=",
		"compare a b --fail-on=", "compare a --reference=", "report a --picture=", "export a -o ", "results --history=", "serve --open --token-file=", "test 127.0.0.1 --token-file=",
	} {
		if status, _, problems := command(t, strings.Split(line, " ")...); status != base.ExitUsage || !strings.Contains(problems, " is empty; leave it out or give it a value") {
			t.Errorf("%s: status %d: %s", line, status, problems)
		}
	}
}
