// Package service has the system start a hopbench agent whenever a host starts, as
// little privileged as the system can make it: by systemd, launchd, or the service
// manager of Windows.
package service

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
)

// Name is that of the service.
const Name = "hopbench-agent"

// Agent is the agent to be started.
type Agent struct {
	Program   string   // path
	TokenFile string   // path; named to the agent by --token-file
	Args      []string // of the program, but for the token's file
}

// The places of the files that the systems read.
const (
	unitFile  = "/etc/systemd/system/" + Name + ".service"
	label     = "io.github.hopbench.agent"
	plistFile = "/Library/LaunchDaemons/" + label + ".plist"
)

// Systems are those whose services are known, as Go names them.
var Systems = []string{"darwin", "linux", "windows"}

// Describe is what Install writes or does on a system.
func Describe(system string, a Agent) (string, error) {
	switch system {
	case "linux":
		return unit("Agent of hopbench", a), nil
	case "darwin":
		return plist(a), nil
	case "windows":
		return windowsCommands(a), nil
	}
	return "", fmt.Errorf("hopbench knows the services of %s, not of %q", strings.Join(Systems, ", "), system)
}

// ServerUnitName is the file name of ServerUnit.
const ServerUnitName = "hopbench-serve.service"

// ServerUnit is the unit of a server that a package installed. It starts when somebody
// enables it, and has put a token where it looks for one.
func ServerUnit() string {
	return unit("Server of hopbench", Agent{Program: "/usr/bin/hopbench", Args: []string{"serve"}, TokenFile: "/etc/hopbench/token"})
}

// unit is an agent or a server as a unit of systemd 247 and later: the user is made for it
// and may do nothing but use the network. Systemd reads the token's file as root.
func unit(description string, a Agent) string {
	words := []string{unitWord(a.Program)}
	for _, arg := range a.Args {
		words = append(words, unitWord(arg))
	}
	// The one variable that systemd is to expand.
	words = append(words, "--token-file", "${CREDENTIALS_DIRECTORY}/token")
	return `[Unit]
Description=` + description + `, which measures what a hop on a network path costs; its token is in ` + unitPath(a.TokenFile) + `
Documentation=https://github.com/hopbench/hopbench
Wants=network-online.target
After=network-online.target
# Without the file systemd would say "Failed to set up credentials: Protocol error".
AssertPathExists=` + unitPath(a.TokenFile) + `

[Service]
ExecStart=` + strings.Join(words, " ") + `
LoadCredential=token:` + unitPath(a.TokenFile) + `
Restart=on-failure
RestartSec=5
LimitNOFILE=65536
TasksMax=16384

DynamicUser=yes
CapabilityBoundingSet=
NoNewPrivileges=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHome=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_NETLINK AF_UNIX
RestrictNamespaces=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
UMask=0077

[Install]
WantedBy=multi-user.target
`
}

// unitWord is one word of a command line of a unit (systemd.service(5)).
func unitWord(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`, `$`, `$$`, "\n", `\n`).Replace(text) + `"`
}

// unitPath is a path in a unit, whose specifiers begin with a per cent sign.
func unitPath(path string) string { return strings.ReplaceAll(path, "%", "%%") }

// plist is the agent as a daemon of launchd (launchd.plist(5)).
func plist(a Agent) string {
	var b bytes.Buffer
	b.WriteString(xml.Header + `<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
	<key>Label</key>
	<string>` + label + `</string>
	<key>ProgramArguments</key>
	<array>
`)
	for _, arg := range a.command() {
		b.WriteString("\t\t<string>")
		_ = xml.EscapeText(&b, []byte(arg)) // a buffer takes all
		b.WriteString("</string>\n")
	}
	b.WriteString(`	</array>
	<key>UserName</key>
	<string>nobody</string>
	<key>RunAtLoad</key>
	<true/>
	<key>KeepAlive</key>
	<dict>
		<key>SuccessfulExit</key>
		<false/>
	</dict>
	<key>StandardErrorPath</key>
	<string>/var/log/` + Name + `.log</string>
	<key>SoftResourceLimits</key>
	<dict>
		<key>NumberOfFiles</key>
		<integer>65536</integer>
	</dict>
</dict>
</plist>
`)
	return b.String()
}

// command is the whole command line.
func (a Agent) command() []string {
	return append(append([]string{a.Program}, a.Args...), "--token-file", a.TokenFile)
}

// windowsCommands are what makes the service by hand; quoting is that of PowerShell,
// in which two single quotes are one.
func windowsCommands(a Agent) string {
	var quoted []string
	for _, arg := range a.command() {
		quoted = append(quoted, `"`+arg+`"`)
	}
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	return fmt.Sprintf(`New-Service -Name %s -DisplayName %s -StartupType Automatic -BinaryPathName %s
sc.exe config %[1]s obj= "NT AUTHORITY\LocalService"
sc.exe failure %[1]s reset= 86400 actions= restart/5000
sc.exe failureflag %[1]s 1
Start-Service %[1]s
`, Name, quote(displayName), quote(strings.Join(quoted, " ")))
}

const displayName = "hopbench agent"
