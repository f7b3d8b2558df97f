package lab

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

	"github.com/hopbench/hopbench/internal/cable"
	"github.com/hopbench/hopbench/internal/idps"
)

// The names under which the own binary runs in a role of the lab, as argv[0].
const (
	supervisorRole = "hopbench-lab-supervisor"
	cableRole      = "hopbench-lab-cable"
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
	case supervisorRole:
		nameProcess("hopbench-lab")
		return supervisorMain(), true
	case cableRole:
		nameProcess("hopbench-cable")
		return cableMain(args), true
	case healthRole:
		nameProcess("hopbench-health")
		return healthMain(args), true
	}
	return 0, false
}

// nameProcess sets what ps and top call the process, which would be "exe".
func nameProcess(name string) {
	// Only a name that is too long could be refused, and it is cut.
	_ = os.WriteFile("/proc/self/comm", []byte(name), 0)
}

// cableJob is what a cable's process is told, as its first argument. Its ports
// are descriptors 4 and 5.
type cableJob struct {
	Link   string        `json:"link"`
	Kinds  [2]cable.Kind `json:"kinds"`
	Config cable.Config  `json:"config"`
	IDPS   *IDPS         `json:"idps,omitempty"`
}

func cableMain(args []string) int {
	if err := runCable(args); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", cableRole, err)
		return 1
	}
	return 0
}

func runCable(args []string) error {
	if len(args) != 2 {
		return errors.New("started without its job; the lab starts this process")
	}
	var job cableJob
	if err := json.Unmarshal([]byte(args[1]), &job); err != nil {
		return fmt.Errorf("read job: %w", err)
	}
	var ports [2]*cable.Port
	for i, kind := range job.Kinds {
		fd := controlDescriptor + 1 + i
		port, err := cable.PortFromFile(os.NewFile(uintptr(fd), job.Link), kind, job.Link)
		if err != nil {
			return err
		}
		ports[i] = port
	}
	c, err := cable.New(ports[0], ports[1], job.Config)
	if err != nil {
		return err
	}
	inspector, err := job.inspect(c)
	if err != nil {
		return err
	}
	conn, err := connOf(os.NewFile(controlDescriptor, "control"))
	if err != nil {
		return err
	}
	go answerSupervisor(&wire{conn: conn}, c, inspector) // for as long as the process lives
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	return c.Run(ctx)
}

// answerSupervisor does what the supervisor asks of a cable until it hangs up.
// inspector is nil when the cable has none.
func answerSupervisor(w *wire, c *cable.Cable, inspector *idps.Inspector) {
	for {
		m, files, err := w.receive()
		closeAll(files)
		if err != nil {
			return
		}
		var answer message
		switch m.Op {
		case opMode, opAlerts:
			answer = answerInspector(m, inspector)
		default:
			answer = cableCounters(c, inspector)
		}
		answer.Op, answer.ID = opReply, m.ID
		if err := w.send(answer); err != nil {
			return
		}
	}
}

func cableCounters(c *cable.Cable, inspector *idps.Inspector) message {
	answer := message{Cable: &CableCounters{Counters: c.Counters()}}
	if inspector != nil {
		counters := inspector.Counters()
		answer.Cable.IDPS = &counters
	}
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		answer.Error = fmt.Sprintf("read the processor time: %v", err)
	}
	answer.Cable.CPU = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	return answer
}
