package measurement

import "time"

// BinsOf adds up counts in bins of one width.
func BinsOf(width time.Duration, counts ...[]int64) Bins {
	out := Bins{Width: SecondsOf(width)}
	for _, count := range counts {
		if more := len(count) - len(out.Bytes); more > 0 {
			out.Bytes = append(out.Bytes, make([]float64, more)...)
		}
		for i, n := range count {
			out.Bytes[i] += float64(n)
		}
	}
	return out
}
