package report

// shareRow is how the time of a test on a path divides among its limits.
type shareRow struct {
	Path, Test string // labels
	Sentence   string
	Parts      []sharePart // in a fixed order, those above zero
}

// sharePart is one limit and its share of the time, 0 to 1.
type sharePart struct {
	Name     string
	Fraction float64
}

// shares arranges the attribution for figures and text.
func (m *model) shares() []shareRow { return nil }
