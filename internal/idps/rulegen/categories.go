package main

import (
	"encoding/base64"
	"fmt"
	"strings"
)

func categories() []category {
	return []category{
		{1000001, "The string whose only purpose is to be found", "not-suspicious", testStrings()},
		{1001001, "Paths that climb out of a folder", "web-application-attack", traversal()},
		{1002001, "Files that no server should hand out", "web-application-activity",
			each(sensitiveFiles, toServer, "request for", func(f string) string {
				return established + anyCase(f) + " fast_pattern; " + content(" HTTP/1.") + " distance:0; within:400;"
			})},
		{1003001, "Pieces of SQL in a request", "web-application-attack",
			each(sql, toServer, "SQL injection", func(s string) string { return established + anyCase(s) })},
		{1004001, "Scripts in a request", "web-application-attack",
			each(scripts, toServer, "script injection", func(s string) string { return established + anyCase(s) })},
		{1005001, "Shell commands in a parameter", "web-application-attack", commands()},
		{1006001, "Names of web shells", "web-application-attack", shells()},
		{1007001, "User agents of scanners", "attempted-recon",
			each(scanners, toServer, "scanner", func(s string) string {
				return established + anyCase("User-Agent: "+s) + " fast_pattern;"
			})},
		{1008001, "Expressions that a server might evaluate", "attempted-admin",
			each(expressions, toServer, "expression injection", func(s string) string { return established + anyCase(s) })},
		{1009001, "Requests that a server is made to send, external entities and serialized objects", "web-application-attack",
			each(serverSide, toServer, "server-side request", func(s string) string { return established + anyCase(s) })},
		{1010001, "Shells that call back", "shellcode-detect",
			each(reverseShells, anyway, "reverse shell", func(s string) string { return "flow:established; " + content(s) })},
		{1011001, "Windows tools used for attacks", "trojan-activity",
			each(windows, anyway, "Windows", func(s string) string { return "flow:established; " + anyCase(s) })},
		{1012001, "What a taken-over host answers", "successful-admin",
			each(answers, toServer, "answer of a compromised host", func(s string) string {
				return "flow:established,to_client; " + content(s)
			})},
		{1013001, "Mining pools", "policy-violation",
			each(miners, toServer, "mining", func(s string) string { return established + content(s) })},
		{1014001, "Invented domains of invented malware, in DNS", "trojan-activity", domains()},
		{1015001, "Invented beacons of invented malware", "trojan-activity", beacons()},
		{1016001, "Amplification", "attempted-dos", amplification()},
		{1017001, "Mail, file transfer, terminals and chat", "misc-attack",
			each(oldProtocols, toServer, "protocol", func(s string) string { return established + anyCase(s) })},
		{1018001, "Passwords that things are delivered with", "default-login-attempt", passwords()},
		{1019001, "Rules of several parts", "misc-activity", composed},
	}
}

// testStrings matches idps.TestString.
func testStrings() []entry {
	return []entry{{"ip any any -> any any", "test string", content("HOPBENCH-INSPECTION-TEST-STRING!$P1-7C4E-D0T#")}}
}

func traversal() []entry {
	var entries []entry
	for _, climb := range climbs {
		for _, file := range climbTargets {
			entries = append(entries, entry{
				toServer, "path traversal " + climb + " to " + file,
				established + anyCase(climb+climb) + " " + anyCase(file) + " distance:0; within:120;",
			})
		}
	}
	return entries
}

func commands() []entry {
	var entries []entry
	for _, separator := range []string{";", "|", "%3b", "%7c", "%26%26", "`", "$("} {
		for _, c := range shellCommands {
			entries = append(entries, entry{toServer, "command injection " + separator + c, established + anyCase("="+separator+c)})
		}
	}
	return entries
}

func shells() []entry {
	var entries []entry
	for _, name := range shellNames {
		for _, kind := range []string{".php", ".jsp", ".aspx"} {
			entries = append(entries, entry{
				toServer, "web shell " + name + kind,
				established + anyCase("/"+name+kind) + " " + content("HTTP/1.") + " distance:1; within:400;",
			})
		}
	}
	return entries
}

// domains asks for names as DNS writes them: each label behind its length (RFC
// 1035, section 4.1.2).
func domains() []entry {
	var entries []entry
	for _, a := range domainFirst {
		for _, b := range domainSecond {
			name := a + "-" + b
			labels := fmt.Sprintf("%c%s%c%s", len(name), name, len("example"), "example")
			entries = append(entries, entry{dns, "query for " + name + ".example", anyCase(labels) + " offset:12;"})
		}
	}
	return entries
}

func beacons() []entry {
	var entries []entry
	for i, path := range beaconPaths {
		agent := beaconAgents[i%len(beaconAgents)]
		entries = append(entries, entry{
			toServer, "beacon " + path,
			established + content("POST "+path) + " fast_pattern; " + content("User-Agent: "+agent) + " distance:0; within:600;",
		})
	}
	return entries
}

func amplification() []entry {
	var entries []entry
	for _, a := range amplifiers {
		entries = append(entries, entry{
			fmt.Sprintf("udp any any -> any %d", a.port), "amplification by " + a.name,
			content(a.request) + fmt.Sprintf(" depth:%d;", len(a.request)),
		})
	}
	return entries
}

func passwords() []entry {
	var entries []entry
	for _, login := range logins {
		coded := base64.StdEncoding.EncodeToString([]byte(login))
		user, _, _ := strings.Cut(login, ":")
		entries = append(entries, entry{
			toServer, "default password of " + user,
			established + content("Authorization: Basic "+coded),
		})
	}
	return entries
}

// composed uses more of the language than the lists need.
var composed = []entry{
	{toServer, "login to FTP", established + content("USER anonymous") + " nocase; startswith; flowbits:set,hopbench.ftp; flowbits:noalert;"},
	{toServer, "program stored by an anonymous FTP user", established + "flowbits:isset,hopbench.ftp; " + anyCase("STOR ") + ` pcre:"/STOR [^\r\n]{1,120}\.(exe|scr|dll)\r?\n/i";`},
	{toServer, "long number of a card in a form", established + content("card=") + ` nocase; pcre:"/card=(4\d{15}|5[1-5]\d{14})[^0-9]/i";`},
	{toServer, "private key", established + content("-----BEGIN ") + " " + content("PRIVATE KEY-----") + " distance:0; within:40;"},
	{toServer, "request without a host", established + content("GET /hopbench-check") + " startswith; " + `content:!"Host|3a|"; nocase; distance:0; within:200;`},
	{anyway, "sled of no-operations", "flow:established; " + content(strings.Repeat("\x90", 32))},
	{anyway, "sled before an interrupt", "flow:established; " + content(strings.Repeat("\x90", 12)) + " " + content("\xcd\x80") + " distance:0; within:256;"},
	{"tcp any any -> any ![80,443,8080]", "HTTP proxy request on an odd port", established + content("CONNECT ") + " startswith; " + content(":25 HTTP/1.") + " distance:1; within:300;"},
	{"udp any any -> any [5060,5061]", "SIP scanner", anyCase("OPTIONS sip:") + " depth:12; " + anyCase("friendly-scanner") + " distance:0;"},
	{"tcp any any -> any 1:1023", "shell prompt sent to a service", established + content("/bin/sh -i") + " fast_pattern; " + content("0>&1") + " distance:0; within:100;"},
}
