package lab

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var publishedName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// publishedPrefix begins the abstract socket addresses of a user's labs. They
// are names in the host's network namespace that no file backs, so they vanish
// with the process that listens.
func publishedPrefix(uid int) string { return "hopbench-lab/" + strconv.Itoa(uid) + "/" }

func publishedAddress(uid int, name string) (string, error) {
	if !publishedName.MatchString(name) {
		return "", fmt.Errorf("%q cannot name a lab: use letters, digits, '.', '_' and '-', at most 64", name)
	}
	return "@" + publishedPrefix(uid) + name, nil
}

// listening finds the names of a user's published labs in /proc/net/unix, whose
// last column is the address, "@" standing for the zero byte of an abstract one.
func listening(table io.Reader, uid int) ([]string, error) {
	const acceptsConnections = "00010000" // __SO_ACCEPTCON, in the Flags column
	var names []string
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) != 8 || fields[3] != acceptsConnections {
			continue
		}
		name, own := strings.CutPrefix(fields[7], "@"+publishedPrefix(uid))
		if own && publishedName.MatchString(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), lines.Err()
}
