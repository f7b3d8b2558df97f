package servicebustest

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/fleet/amqp/amqptest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// StandIn stands in for Service Bus for as long as t (see standin.js), and locks messages for
// a time. It gives the connection string. Root is the folder of the module.
func StandIn(t *testing.T, root string, lock time.Duration) (broker *amqptest.Broker, connection string) {
	t.Helper()
	_, err := exec.LookPath("node")
	testutil.Need(t, err == nil, "Node.js")
	modules, err := filepath.Abs(filepath.Join(root, "build/rhea/node_modules"))
	testutil.OK(t, err)
	_, err = os.Stat(filepath.Join(modules, "rhea"))
	testutil.Need(t, err == nil, "rhea: npm install --prefix build/rhea rhea@3.0.5")
	port, err := testutil.FreePort()
	testutil.OK(t, err)
	broker = amqptest.Run(t, port, []string{"NODE_PATH=" + modules},
		"node", filepath.Join(root, "internal/fleet/servicebus/servicebustest/standin.js"), fmt.Sprint(port), fmt.Sprint(lock.Seconds()))
	return broker, fmt.Sprintf("Endpoint=sb://localhost:%d;SharedAccessKeyName=all;SharedAccessKey=%s;UseDevelopmentEmulator=true", port, rand.Text())
}
