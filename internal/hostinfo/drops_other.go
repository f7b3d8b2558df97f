//go:build !linux

package hostinfo

// ReadDrops is not supported here.
func ReadDrops() (DropCounts, error) { return DropCounts{}, ErrUnsupported }

// NetworkID is empty here: there are no network namespaces.
func NetworkID() string { return "" }

// ClockID is empty here: processes have no clock in common that is known.
func ClockID() string { return "" }
