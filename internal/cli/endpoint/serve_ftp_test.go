package endpoint

import (
	"testing"

	"github.com/hopbench/hopbench/internal/ftp"
)

func TestNamesOfFiles(t *testing.T) {
	for name, want := range map[string]int64{
		"1GB.bin": 1e9, "64MiB.bin": 64 << 20, "1500B.bin": 1500, "1.5kB.bin": 1500, "10TB.bin": ftp.MaxFileBytes,
		"11TB.bin": 0, "0B.bin": 0, "1GB": 0, "GB.bin": 0, "-1GB.bin": 0, ".bin": 0, "1Gbit.bin": 0, "": 0,
	} {
		if got, ok := fileNamed(name); ok != (want > 0) || ok && got != want {
			t.Errorf("%s: %d bytes, %v, want %d", name, got, ok, want)
		}
	}
}

func FuzzFileNamed(f *testing.F) {
	f.Add("1GB.bin")
	f.Add("9999999999999999TB.bin")
	f.Fuzz(func(t *testing.T, name string) {
		if n, ok := fileNamed(name); ok && (n < 1 || n > ftp.MaxFileBytes) {
			t.Errorf("%q has %d bytes", name, n)
		}
	})
}

func TestRangesOfPorts(t *testing.T) {
	for text, ok := range map[string]bool{
		"50000-50100": true, "1-65535": true, "7-7": true, "": false, "7": false, "0-7": false, "8-7": false, "1-65536": false, "a-b": false, "-": false,
	} {
		var v portsValue
		if err := v.Set(text); (err == nil) != ok || ok && v.String() != text {
			t.Errorf("%q: %v, %v", text, v, err)
		}
	}
}
