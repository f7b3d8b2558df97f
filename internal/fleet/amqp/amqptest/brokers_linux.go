package amqptest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/testutil"
)

// Broker is a program, which ends with the test.
type Broker struct {
	argv []string
	env  []string
	port uint16 // of loopback, where it listens once it is ready
	out  string // file of what it says
	cmd  *exec.Cmd
}

// Start starts it, and waits until it listens.
func (p *Broker) Start(ctx context.Context) error {
	p.cmd = exec.Command(p.argv[0], p.argv[1:]...)
	p.cmd.Env = append(os.Environ(), p.env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p.cmd.WaitDelay = time.Second
	out, err := os.Create(p.out)
	if err != nil {
		return err
	}
	defer out.Close()
	p.cmd.Stdout, p.cmd.Stderr = out, out
	if err := p.cmd.Start(); err != nil {
		return err
	}
	for {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", p.port))
		if err == nil {
			return c.Close()
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			p.Kill()
			return fmt.Errorf("%s does not listen: %w; it said:\n%s", p.argv[0], err, p.Said())
		}
	}
}

// Said is the end of what it printed.
func (p *Broker) Said() string {
	text, err := os.ReadFile(p.out)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}

// Kill ends the program and what it started.
func (p *Broker) Kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	_ = p.cmd.Wait() // killed
}

// Run starts a program for as long as t, and waits until it listens at a port of loopback.
func Run(t *testing.T, port uint16, env []string, argv ...string) *Broker {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	p := &Broker{argv: argv, env: env, port: port, out: filepath.Join(t.TempDir(), "out")}
	testutil.OK(t, p.Start(ctx))
	t.Cleanup(p.Kill)
	return p
}

func write(t *testing.T, path, text string) {
	t.Helper()
	testutil.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
	testutil.OK(t, os.WriteFile(path, []byte(text), 0o600))
}

// RabbitMQ is Debian's, with its plugin for AMQP 1.0: one node with its own directories,
// names and ports. It gives the address of its broker.
func RabbitMQ(t *testing.T) (broker *Broker, url string) {
	t.Helper()
	const program = "/usr/lib/rabbitmq/bin/rabbitmq-server"
	_, err := os.Stat(program)
	testutil.Need(t, err == nil, "Debian's rabbitmq-server")
	first, err := testutil.FreePorts(3)
	testutil.OK(t, err)
	names, distribution, port := first, first+1, first+2
	dir := t.TempDir()
	write(t, filepath.Join(dir, "plugins"), "[rabbitmq_amqp1_0].\n")
	env := []string{
		"HOME=" + dir, // of Erlang's cookie
		fmt.Sprint("ERL_EPMD_PORT=", names),
		"ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_NODENAME=hopbench@localhost",
		"RABBITMQ_NODE_IP_ADDRESS=127.0.0.1",
		fmt.Sprint("RABBITMQ_NODE_PORT=", port),
		fmt.Sprint("RABBITMQ_DIST_PORT=", distribution),
		"RABBITMQ_MNESIA_BASE=" + filepath.Join(dir, "mnesia"),
		"RABBITMQ_LOG_BASE=" + filepath.Join(dir, "log"),
		"RABBITMQ_LOGS=-",
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + filepath.Join(dir, "plugins"),
		"RABBITMQ_CONFIG_FILE=" + filepath.Join(dir, "none"),
		"RABBITMQ_CONF_ENV_FILE=" + filepath.Join(dir, "none"),
		"RABBITMQ_PID_FILE=" + filepath.Join(dir, "pid"),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+sbwt none -kernel inet_dist_use_interface {127,0,0,1}",
	}
	// Erlang would start it otherwise, as a daemon.
	Run(t, names, env, "epmd", "-port", fmt.Sprint(names), "-address", "127.0.0.1")
	broker = Run(t, port, env, program)
	return broker, fmt.Sprintf("amqp://guest:guest@127.0.0.1:%d", port)
}

// Artemis is from Maven Central, since there is no package: the server that its jars, which
// pom names, bring along. It gives the address of its broker.
func Artemis(t *testing.T, pom string) (broker *Broker, url string) {
	t.Helper()
	maven, err := exec.LookPath("mvn")
	testutil.Need(t, err == nil, "Maven, for ActiveMQ Artemis")
	dir := t.TempDir()
	fetched, err := exec.CommandContext(t.Context(), maven, "-q", "-B", "-f", pom,
		"dependency:copy-dependencies", "-DoutputDirectory="+filepath.Join(dir, "jars")).CombinedOutput()
	if err != nil {
		t.Fatalf("fetch ActiveMQ Artemis: %v\n%s", err, fetched)
	}
	port, err := testutil.FreePort()
	testutil.OK(t, err)
	write(t, filepath.Join(dir, "etc", "broker.xml"), fmt.Sprintf(`<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
		<persistence-enabled>false</persistence-enabled>
		<security-enabled>false</security-enabled>
		<acceptors><acceptor name="amqp">tcp://127.0.0.1:%d?protocols=AMQP</acceptor></acceptors>
	</core></configuration>`, port))
	broker = Run(t, port, nil, "java", "-Xmx512m", "-cp", filepath.Join(dir, "jars", "*"),
		"org.apache.activemq.artemis.core.server.embedded.Main", dir)
	return broker, fmt.Sprintf("amqp://127.0.0.1:%d", port)
}
