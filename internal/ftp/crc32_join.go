package ftp

import "hash/crc32"

// The digest of a file is its CRC-32 as zlib has it, which FTP servers with XCRC
// or HASH know, too. Its arithmetic is linear over GF(2), so that the digests of
// segments, which arrive at the same time, add up to that of the file: followed
// by n bytes, a part's CRC is multiplied by x^(8n) modulo the polynomial, and
// the CRC of those bytes is added. It sees every error of up to 32 adjacent
// bits, and misses one in 2^32 of all others.

// Elements of the field have the coefficient of x^0 in the highest bit, as
// crc32.IEEE has it.
const (
	fieldOne = 1 << 31
	fieldX8  = 1 << (31 - 8)
)

// multiply is a·b modulo the polynomial.
func multiply(a, b uint32) uint32 {
	var product uint32
	for ; a != 0; a <<= 1 {
		if a&fieldOne != 0 {
			product ^= b
		}
		carry := b & 1
		b >>= 1
		if carry != 0 {
			b ^= crc32.IEEE
		}
	}
	return product
}

// power is x^(8n), by which a CRC is multiplied that n bytes follow.
func power(n int64) uint32 {
	result, square := uint32(fieldOne), uint32(fieldX8)
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			result = multiply(result, square)
		}
		square = multiply(square, square)
	}
	return result
}

// Join is the CRC-32 of a part with the CRC-32 a, followed by one of n bytes with
// the CRC-32 b.
func Join(a, b uint32, n int64) uint32 { return multiply(a, power(n)) ^ b }
