package load_test

import (
	"testing"

	"github.com/hopbench/hopbench/internal/probe/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }
