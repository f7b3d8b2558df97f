package lab_test

import (
	"testing"

	"github.com/hopbench/hopbench/internal/testbed/labtest"
)

func TestMain(m *testing.M) { labtest.Main(m) }
