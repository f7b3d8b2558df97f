package idps

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// addressVariables are those of Suricata's own configuration. In a lab, and in
// general where a hop cannot know who is at home, all of them are any address.
var addressVariables = []string{
	"HOME_NET", "EXTERNAL_NET", "HTTP_SERVERS", "SMTP_SERVERS", "SQL_SERVERS", "DNS_SERVERS", "TELNET_SERVERS",
	"AIM_SERVERS", "DC_SERVERS", "DNP3_SERVER", "DNP3_CLIENT", "MODBUS_CLIENT", "MODBUS_SERVER", "ENIP_CLIENT", "ENIP_SERVER",
}

// portVariables have the values of Suricata's own configuration.
var portVariables = map[string]string{
	"HTTP_PORTS": "80", "SHELLCODE_PORTS": "!80", "ORACLE_PORTS": "1521", "SSH_PORTS": "22", "DNP3_PORTS": "20000",
	"MODBUS_PORTS": "502", "FILE_DATA_PORTS": "[80,110,143]", "FTP_PORTS": "21", "GENEVE_PORTS": "6081",
	"VXLAN_PORTS": "4789", "TEREDO_PORTS": "3544",
}

const maxListDepth = 8

// members splits a list in brackets, which lies so deep in others, nested ones
// included, and calls take with each member that is no list.
func (p *parser) members(text string, negated bool, depth int, take func(member string, negated bool)) {
	text = strings.TrimSpace(text)
	if rest, not := strings.CutPrefix(text, "!"); not {
		if negated {
			p.wrong("%q negates what is negated already", text)
			return
		}
		text, negated = strings.TrimSpace(rest), true
	}
	inner, list := strings.CutPrefix(text, "[")
	if !list {
		take(text, negated)
		return
	}
	inner, closed := strings.CutSuffix(inner, "]")
	if !closed || depth == maxListDepth {
		p.wrong("the list %q is not closed, or nested more than %d deep", text, maxListDepth)
		return
	}
	level, start := 0, 0
	for i := 0; i <= len(inner); i++ {
		if i == len(inner) || inner[i] == ',' && level == 0 {
			p.members(inner[start:i], negated, depth+1, take)
			start = i + 1
			continue
		}
		switch inner[i] {
		case '[':
			level++
		case ']':
			level--
		}
	}
}

func (p *parser) addresses(text string) set[netip.Prefix] {
	var s set[netip.Prefix]
	everything := false
	p.members(text, false, 0, func(member string, negated bool) {
		name, variable := strings.CutPrefix(member, "$")
		if variable && !slices.Contains(addressVariables, name) {
			p.wrong("there is no address variable $%s; there are $%s", name, strings.Join(addressVariables, ", $"))
			return
		}
		if variable || member == "any" {
			if negated && !variable {
				p.wrong("!any is no address")
			}
			// What is not in $HOME_NET, which is everything, is elsewhere: with
			// no network of its own a hop takes both for any address.
			everything = true
			return
		}
		prefix, err := parsePrefix(member)
		if err != nil {
			p.wrong("%v", err)
			return
		}
		s.add(prefix, negated)
	})
	if everything {
		s.in = nil
	}
	return s
}

func parsePrefix(text string) (netip.Prefix, error) {
	if strings.Contains(text, "/") {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return prefix, fmt.Errorf("%q is no network", text)
		}
		return prefix.Masked(), nil
	}
	address, err := netip.ParseAddr(text)
	if err != nil || address.Zone() != "" {
		return netip.Prefix{}, fmt.Errorf("%q is no address", text)
	}
	return netip.PrefixFrom(address, address.BitLen()), nil
}

func (p *parser) ports(text string) set[portRange] {
	var s set[portRange]
	everything := false
	var take func(member string, negated bool)
	take = func(member string, negated bool) {
		if name, variable := strings.CutPrefix(member, "$"); variable {
			value, known := portVariables[name]
			if !known {
				p.wrong("there is no port variable $%s; there are $%s", name, strings.Join(slices.Sorted(maps.Keys(portVariables)), ", $"))
				return
			}
			p.members(value, negated, 0, take)
			return
		}
		if member == "any" {
			if negated {
				p.wrong("!any is no port")
			}
			everything = true
			return
		}
		r, err := parsePorts(member)
		if err != nil {
			p.wrong("%v", err)
			return
		}
		s.add(r, negated)
	}
	p.members(text, false, 0, take)
	if everything {
		s.in = nil
	}
	return s
}

// parsePorts reads 80, 1:1023, :1023 or 1024:.
func parsePorts(text string) (portRange, error) {
	from, to, isRange := strings.Cut(text, ":")
	if !isRange {
		to = from
	}
	number := func(text string, open uint16) (uint16, error) {
		if isRange && text == "" {
			return open, nil
		}
		n, err := strconv.ParseUint(text, 10, 16)
		return uint16(n), err
	}
	first, err1 := number(from, 0)
	last, err2 := number(to, 65535)
	if err1 != nil || err2 != nil || first > last || text == ":" {
		return portRange{}, fmt.Errorf("%q is no port and no range of ports", text)
	}
	return portRange{first, last}, nil
}
