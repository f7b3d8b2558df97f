package wine_test

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"testing"
)

// forwarder is a 64-bit Windows library without code that exports one name and
// sends whoever calls it to a function of another library ("advapi32.Name").
// The layout is that of the PE format, "Export Directory Table" and "Export
// Address Table", where an address inside the export directory is the text of
// a forwarder:
// https://learn.microsoft.com/windows/win32/debug/pe-format
func forwarder(library, name, target string) []byte {
	const (
		fileAlign, sectionAlign = 0x200, 0x1000
		section                 = sectionAlign // the address of the only section
		directory               = 40           // bytes of the export directory table
	)
	// The section: directory, one address, one name pointer, one ordinal, texts.
	addresses, names, ordinals := uint32(section+directory), uint32(section+directory+4), uint32(section+directory+8)
	texts := uint32(section + directory + 12)
	libraryAt := texts
	nameAt := libraryAt + uint32(len(library)) + 1
	targetAt := nameAt + uint32(len(name)) + 1
	var exports bytes.Buffer
	put(&exports, uint32(0), uint32(0), uint32(0), libraryAt,
		uint32(1), uint32(1), uint32(1), addresses, names, ordinals,
		targetAt, nameAt, uint16(0), uint16(0))
	exports.WriteString(library + "\x00" + name + "\x00" + target + "\x00")
	size := uint32(exports.Len())

	optional := pe.OptionalHeader64{
		Magic: 0x20b, SizeOfInitializedData: fileAlign, ImageBase: 0x2_1000_0000,
		SectionAlignment: sectionAlign, FileAlignment: fileAlign,
		MajorOperatingSystemVersion: 10, MajorSubsystemVersion: 10,
		SizeOfImage: 2 * sectionAlign, SizeOfHeaders: fileAlign,
		Subsystem: pe.IMAGE_SUBSYSTEM_WINDOWS_CUI, NumberOfRvaAndSizes: 16,
		DllCharacteristics: pe.IMAGE_DLLCHARACTERISTICS_NX_COMPAT,
	}
	optional.DataDirectory[pe.IMAGE_DIRECTORY_ENTRY_EXPORT] = pe.DataDirectory{VirtualAddress: section, Size: size}
	file := pe.FileHeader{
		Machine: pe.IMAGE_FILE_MACHINE_AMD64, NumberOfSections: 1, SizeOfOptionalHeader: uint16(binary.Size(optional)),
		Characteristics: pe.IMAGE_FILE_EXECUTABLE_IMAGE | pe.IMAGE_FILE_LARGE_ADDRESS_AWARE | pe.IMAGE_FILE_DLL,
	}
	header := pe.SectionHeader32{
		Name: [8]uint8([]byte(".edata\x00\x00")), VirtualSize: size, VirtualAddress: section,
		SizeOfRawData: fileAlign, PointerToRawData: fileAlign,
		Characteristics: pe.IMAGE_SCN_CNT_INITIALIZED_DATA | pe.IMAGE_SCN_MEM_READ,
	}
	dos := make([]byte, 64)
	copy(dos, "MZ")
	dos[60] = 64 // where the PE header begins
	var out bytes.Buffer
	out.Write(dos)
	out.WriteString("PE\x00\x00")
	put(&out, file, optional, header)
	out.Write(make([]byte, fileAlign-out.Len()))
	out.Write(exports.Bytes())
	out.Write(make([]byte, 2*fileAlign-out.Len()))
	return out.Bytes()
}

func put(b *bytes.Buffer, values ...any) {
	for _, v := range values {
		// A bytes.Buffer takes everything, and the types have fixed sizes.
		_ = binary.Write(b, binary.LittleEndian, v)
	}
}

func TestForwarderIsALibrary(t *testing.T) {
	f, err := pe.NewFile(bytes.NewReader(forwarder("a.dll", "Name", "b.Other")))
	if err != nil {
		t.Fatal(err)
	}
	data, err := f.Section(".edata").Data()
	if err != nil || !bytes.Contains(data, []byte("a.dll\x00Name\x00b.Other\x00")) {
		t.Errorf("%q, %v", data, err)
	}
}
