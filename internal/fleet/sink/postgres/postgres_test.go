package postgres

import (
	"strings"
	"testing"
)

// What cannot be read may be a secret, also one of something else.
func TestErrorsShowNoSecret(t *testing.T) {
	for _, connection := range []string{
		"SECRET", "password = SECRET host", "user=u password=SECRET sslmode=nope", "postgres://u:SECRET/SECRET@host:port/db",
		"postgres://u:p@host/db?sslmode=verify-full&sslrootcert=/nowhere/root.crt",
	} {
		_, err := Open(t.Context(), connection, "run")
		if err == nil || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v", connection, err)
		}
		if root := strings.Contains(connection, "root.crt"); root != strings.Contains(err.Error(), "/nowhere/root.crt") {
			t.Errorf("%s: %v", connection, err)
		}
	}
}
