package experiment

import (
	"reflect"

	"github.com/hopbench/hopbench/internal/strict"
)

// renames lists all of them. Files with an old name are refused with the new one;
// those in the folders of runs are read.
func renames() []strict.Rename {
	return []strict.Rename{
		{In: reflect.TypeFor[FileEndpoint](), Old: "egress", New: "egress_rate"},
		{In: reflect.TypeFor[FileEndpoint](), Old: "accelerated", New: "vswitch", Negated: true},
		{In: reflect.TypeFor[FilePath](), Old: "accelerated", New: "vswitch", Negated: true},
		{In: reflect.TypeFor[FilePath](), Old: "same_as", New: "variant_of"},
		{In: reflect.TypeFor[FilePath](), Old: "off", New: "bypass"},
		{In: reflect.TypeFor[FileHop](), Old: "account_cpu", New: "measure_kernel_cpu"},
		{In: reflect.TypeFor[FileTest](), Old: "tool", New: "protocol", Value: reflect.TypeFor[WordText]()},
		{In: reflect.TypeFor[WordText](), Old: "iperf3-wire", New: "iperf3"},
		{In: reflect.TypeFor[HopType](), Old: "cable", New: "link"},
		{In: reflect.TypeFor[HopType](), Old: "gateway", New: "vnet-gateway"},
	}
}
