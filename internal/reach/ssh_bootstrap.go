package reach

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/hopbench/hopbench/internal/printable"
	"github.com/hopbench/hopbench/internal/protocol"
)

// said begins what the script below says; whatever else appears on standard output
// comes from the login shell's files.
const said = "hopbench: "

// folderPrefix begins the names of the folders that the script makes.
const folderPrefix = "hopbench."

// script runs on the far host, by its sh and with what every Unix has, busybox
// included. It is one line and has no quote, backslash or exclamation mark, so that
// every login shell passes it on as it is. In short:
//
//	say which machine this is; hear what program comes
//	find a folder that takes a file of that size, and lets it be run
//	take the program, check its digest, run it on standard input and output
//
// It removes the folder at the end, whatever end that is but SIGKILL of this very
// shell; the program removes it itself as soon as it runs. Without the coordinator
// standard input ends, and with it every step.
const script = `LC_ALL=C; export LC_ALL; umask 077; d=; ` +
	`clean() { [ -z "$d" ] || rm -rf "$d"; d=; }; ` +
	`trap clean EXIT; trap "exit 1" HUP INT TERM PIPE; ` +
	`say() { echo "` + said + `$*"; }; ` +
	`how=plain; command -v gzip >/dev/null 2>&1 && how=gzip; ` +
	`say here "$(uname -s)" "$(uname -m)" "$how"; ` +
	`read -r how bytes size sum || exit 1; ` +
	`for t in "$TMPDIR" /tmp "$HOME" "$XDG_RUNTIME_DIR"; do ` +
	`[ -n "$t" ] || continue; ` +
	`d=$(mktemp -d "$t/` + folderPrefix + `XXXXXXXXXX" 2>/dev/null) || { d=; say no unwritable "$t"; continue; }; ` +
	`f="$d/hopbench"; ` +
	`head -c "$size" /dev/zero 2>/dev/null >"$f" || { clean; say no full "$t"; continue; }; ` +
	`echo "exit 0" >"$f"; chmod 700 "$f"; ` +
	`"$f" </dev/null >/dev/null 2>&1 || { clean; say no noexec "$t"; continue; }; ` +
	`break; ` +
	`done; ` +
	`[ -n "$d" ] || { say none; exit 1; }; ` +
	`say go; ` +
	`if [ "$how" = gzip ]; then head -c "$bytes" | gzip -dc >"$f"; else head -c "$bytes" >"$f"; fi || { say failed write "$d"; exit 1; }; ` +
	`got=$( { sha256sum || shasum -a 256 || openssl dgst -sha256 -r; } 2>/dev/null <"$f"); ` +
	`[ "${got%% *}" = "$sum" ] || { say failed digest "$d"; exit 1; }; ` +
	`say run; ` +
	`"$f" agent --stdio --remove-self; exit $?`

// machine is what the far host says of itself.
type machine struct {
	os, arch string // as Go names them
	gzip     bool
}

// maxBabble bounds, in bytes, what a login shell's files may say before the script does.
const maxBabble = 64 << 10

// dialog speaks with the script.
type dialog struct {
	in  *bufio.Reader
	out io.Writer
	// babble is the end of the last line that was not the script's.
	babble string
}

// start has the script take the program that programs finds and run it. The error
// is one sentence, but for those of the connection.
func (d *dialog) start(find func(goos, goarch string) (*program, error)) error {
	words, err := d.hear()
	if err != nil {
		return err
	}
	far, err := parseMachine(words)
	if err != nil {
		return err
	}
	p, err := find(far.os, far.arch)
	if err != nil {
		return err
	}
	how, content := "plain", p.plain
	if far.gzip {
		how, content = "gzip", p.packed
	}
	if _, err := fmt.Fprintln(d.out, how, len(content), len(p.plain), p.digest); err != nil {
		return err
	}
	if err := d.findFolder(); err != nil {
		return err
	}
	if _, err := d.out.Write(content); err != nil {
		return err
	}
	if words, err = d.hear(); err != nil {
		return err
	}
	switch {
	case len(words) == 1 && words[0] == "run":
	case len(words) == 3 && words[0] == "failed" && words[1] == "write":
		return fmt.Errorf("%s is full: %s", words[2], makeRoom)
	case len(words) == 3 && words[0] == "failed" && words[1] == "digest":
		return fmt.Errorf("what arrived in %s is not what was sent, or the host has none of sha256sum, shasum and openssl to check it", words[2])
	default:
		return unexpected(words)
	}
	if err := protocol.ReadPreface(d.in); err != nil {
		if version, ok := errors.AsType[*protocol.VersionError](err); ok {
			return fmt.Errorf("%s is another version: %w", p.path, version)
		}
		return &notRunning{path: p.path, far: far}
	}
	return nil
}

// notRunning says that a program arrived and gave no sign of life.
type notRunning struct {
	path string
	far  machine
	said string // what the host said about it
}

func (e *notRunning) Error() string {
	why := "it gave no sign of life"
	if e.said != "" {
		why = fmt.Sprintf("the host says %q", e.said)
	}
	return fmt.Sprintf("%s does not run there (%s): is it a hopbench of this version, for %s/%s?", e.path, why, e.far.os, e.far.arch)
}

// makeRoom is what to do about a host on which no folder takes the program.
const makeRoom = "make room, or set TMPDIR for that user to a folder that takes 40 MB and lets programs be run"

// findFolder hears where the script found no room, until it goes on.
func (d *dialog) findFolder() error {
	var tried []string
	for {
		words, err := d.hear()
		if err != nil {
			return err
		}
		switch {
		case len(words) == 1 && words[0] == "go":
			return nil
		case len(words) == 1 && words[0] == "none":
			return fmt.Errorf("no folder there takes the program (%s): %s", strings.Join(tried, ", "), makeRoom)
		case len(words) == 3 && words[0] == "no" && len(tried) < maxFolders:
			what, known := map[string]string{"unwritable": "cannot be written to", "full": "is full", "noexec": "lets no program run (noexec)"}[words[1]]
			if !known {
				return unexpected(words)
			}
			tried = append(tried, words[2]+" "+what)
		default:
			return unexpected(words)
		}
	}
}

// maxFolders is how many the script tries.
const maxFolders = 4

func unexpected(words []string) error {
	return fmt.Errorf("the host says %q where hopbench's script would not", strings.Join(words, " "))
}

// hear is the next thing that the script says, in words: the third has what is left.
func (d *dialog) hear() ([]string, error) {
	for read := 0; read < maxBabble; {
		line, err := d.in.ReadSlice('\n')
		read += len(line)
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			if len(line) > 0 {
				d.babble = printable.Line(string(line), maxSaid)
			}
			return nil, err
		}
		text := printable.Line(strings.TrimRight(string(line), "\r\n"), maxSaid)
		// A shell's file may print a prompt without a line's end.
		if _, words, found := strings.Cut(text, said); found {
			return strings.SplitN(words, " ", 3), nil
		}
		if text != "" {
			d.babble = text
		}
	}
	return nil, fmt.Errorf("the host's login shell says more than %d bytes and nothing of what it was asked, at last %q: have it say nothing where there is no terminal", maxBabble, d.babble)
}

// maxSaid bounds a line that is shown, in characters.
const maxSaid = 300

// systems and processors are the names that uname gives for those of Go.
var (
	systems    = map[string]string{"Linux": "linux", "Darwin": "darwin", "FreeBSD": "freebsd", "OpenBSD": "openbsd", "NetBSD": "netbsd"}
	processors = map[string]string{
		"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64", "armv7l": "arm", "armv6l": "arm",
		"i386": "386", "i686": "386", "riscv64": "riscv64", "ppc64le": "ppc64le", "s390x": "s390x", "loongarch64": "loong64",
	}
)

// parseMachine reads what the script says first.
func parseMachine(words []string) (machine, error) {
	if len(words) != 3 || words[0] != "here" {
		return machine{}, unexpected(words)
	}
	cpu, how, _ := strings.Cut(words[2], " ")
	if how != "gzip" && how != "plain" {
		return machine{}, unexpected(words)
	}
	for _, windows := range []string{"MINGW", "MSYS", "CYGWIN", "Windows"} {
		if strings.HasPrefix(words[1], windows) {
			return machine{}, errWindows
		}
	}
	goos, goarch := systems[words[1]], processors[cpu]
	if goos == "" || goarch == "" {
		return machine{}, fmt.Errorf("hopbench knows no program for %s on %s: run hopbench agent --listen there, and reach it by tls://", strconv.Quote(words[1]), strconv.Quote(cpu))
	}
	return machine{os: goos, arch: goarch, gzip: how == "gzip"}, nil
}

// errWindows is what there is instead of ssh on Windows.
var errWindows = errors.New("it runs Windows, where hopbench copies itself nowhere: run hopbench agent install there, and reach it by tls://")
