package measurement

// Margin is the smallest effect on a metric that matters: a share of the
// reference for a metric that is judged by its ratio, an amount in the metric's
// unit for one that is judged by its difference. The other is zero.
type Margin struct {
	Fraction float64 `json:"fraction,omitempty"`
	Amount   float64 `json:"amount,omitempty"`
}
