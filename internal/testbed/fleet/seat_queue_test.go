package fleet

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/testbed/inventory"
	"github.com/hopbench/hopbench/internal/testutil"
)

// What a broker demands may be replaced in its file while a run goes on: each connection has what
// is there then.
func TestSecretsOfAQueueAreReplaced(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	for _, c := range []struct {
		name          string
		first, second string
		open          func() (func() (string, error), error)
	}{
		{"AMQP", "amqps://fw:first@mq:5671", "amqps://fw:second@mq:5671", func() (func() (string, error), error) {
			o, err := amqpOptions(inventory.AMQPQueue{URL: "amqps://mq:5671", User: "fw", PasswordFile: file}, "run", time.Minute)
			return o.URL, err
		}},
		{"Service Bus", "first", "second", func() (func() (string, error), error) {
			o, err := serviceBusOptions(inventory.ServiceBusQueue{Name: "q", ConnectionFile: file}, "run", time.Minute)
			return o.ConnectionString, err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := c.open(); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("without the file: %v", err)
			}
			testutil.OK(t, os.WriteFile(file, []byte("first\n"), 0o600))
			secret, err := c.open()
			testutil.OK(t, err)
			if got, err := secret(); got != c.first || err != nil {
				t.Errorf("first: %q, %v", got, err)
			}
			testutil.OK(t, os.WriteFile(file, []byte("second\n"), 0o600))
			if got, err := secret(); got != c.second || err != nil {
				t.Errorf("second: %q, %v", got, err)
			}
			testutil.OK(t, os.Remove(file))
			if _, err := secret(); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("once the file is gone: %v", err)
			}
		})
	}
}
