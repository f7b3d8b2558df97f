package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/idps"
	"github.com/hopbench/hopbench/internal/lab/message"
	"github.com/hopbench/hopbench/internal/lab/topology"
	"github.com/hopbench/hopbench/internal/linkem"
)

// Role and LinkRole are the names under which the own binary runs in a role of the lab, as argv[0].
const (
	Role     = "hopbench-lab-supervisor"
	LinkRole = "hopbench-lab-link"
)

// controlDescriptor is where a re-executed process finds its control socket.
const controlDescriptor = 3

// Main runs the role of a lab that args, the program's os.Args, ask for.
// handled is false when they ask for none. A program that starts labs calls it
// before anything else.
func Main(args []string) (code int, handled bool) {
	if len(args) == 0 {
		return 0, false
	}
	switch filepath.Base(args[0]) {
	case Role:
		nameProcess("hopbench-lab")
		return supervisorMain(), true
	case LinkRole:
		nameProcess("hopbench-link")
		return runRole[linkJob](args), true
	case healthRole:
		nameProcess("hopbench-health")
		return runRole[healthJob](args), true
	}
	return 0, false
}

// nameProcess sets what ps and top call the process, which would be "exe".
func nameProcess(name string) {
	// Only a name that is too long could be refused, and it is cut.
	_ = os.WriteFile("/proc/self/comm", []byte(name), 0)
}

// linkJob is what a link emulator's process is told, as its first argument. Its ports
// are descriptors 4 and 5.
type linkJob struct {
	Link   string         `json:"link"`
	Kinds  [2]linkem.Kind `json:"kinds"`
	Config linkem.Config  `json:"config"`
	IDPS   *topology.IDPS `json:"idps,omitempty"`
}

// runRole runs a process that the supervisor started with a job as its first
// argument and a control socket as descriptor 3, until it is told to end.
func runRole[Job interface {
	run(ctx context.Context, supervisor *message.Conn) error
}](args []string) int {
	err := func() error {
		if len(args) != 2 {
			return errors.New("started without its job; the lab starts this process")
		}
		var job Job
		if err := json.Unmarshal([]byte(args[1]), &job); err != nil {
			return fmt.Errorf("read job: %w", err)
		}
		conn, err := message.Open(os.NewFile(controlDescriptor, "control"))
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
		defer stop()
		return job.run(ctx, conn)
	}()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", args[0], err)
		return 1
	}
	return 0
}

func (j linkJob) run(ctx context.Context, conn *message.Conn) error {
	var ports [2]*linkem.Port
	for i, kind := range j.Kinds {
		fd := controlDescriptor + 1 + i
		port, err := linkem.PortFromFile(os.NewFile(uintptr(fd), j.Link), kind, j.Link)
		if err != nil {
			return err
		}
		ports[i] = port
	}
	c, inspector, err := j.emulator(ports)
	if err != nil {
		return err
	}
	go answerSupervisor(conn, c, inspector) // for as long as the process lives
	return c.Run(ctx)
}

// emulator is the link emulator of the job, for which it prepares this process, and
// its inspector, nil when it does not inspect.
func (j linkJob) emulator(ports [2]*linkem.Port) (*linkem.Emulator, *idps.Inspector, error) {
	if err := linkem.TuneProcess(1); err != nil {
		return nil, nil, err
	}
	c, err := linkem.New(ports[0], ports[1], j.Config)
	if err != nil {
		return nil, nil, err
	}
	inspector, err := j.inspect(c)
	return c, inspector, err
}

// answerSupervisor does what the supervisor asks of a link until it hangs up.
// inspector is nil when the link does not inspect.
func answerSupervisor(conn *message.Conn, c *linkem.Emulator, inspector *idps.Inspector) {
	handlers := map[message.Verb]message.Handler{
		message.Count: message.Handle(func(struct{}) (message.LinkCounters, error) { return countersOf(c, inspector) }),
		message.Mode: message.Do(func(r message.ModeRequest) error {
			if inspector == nil {
				return errNotInspecting
			}
			return inspector.SetMode(r.Mode)
		}),
		message.Alerts: message.Handle(func(string) ([]idps.AlertRecord, error) {
			if inspector == nil {
				return nil, errNotInspecting
			}
			return inspector.Alerts(), nil
		}),
	}
	for {
		m, files, err := conn.Receive()
		message.CloseAll(files)
		if err != nil {
			return
		}
		var body any
		failed := fmt.Errorf("a link knows no operation %q", m.Verb)
		if do := handlers[m.Verb]; do != nil {
			body, failed = do(m)
		}
		if err := conn.Answer(m.ID, body, failed); err != nil {
			return
		}
	}
}

func countersOf(c *linkem.Emulator, inspector *idps.Inspector) (message.LinkCounters, error) {
	counters := message.LinkCounters{Counters: c.Counters()}
	if inspector != nil {
		inspected := inspector.Counters()
		counters.IDPS = &inspected
	}
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return counters, fmt.Errorf("read the CPU time: %w", err)
	}
	counters.CPU = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	return counters, nil
}
