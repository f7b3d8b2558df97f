package testbed

// Severity is what a finding means for a run.
type Severity string

// The severities.
const (
	Wrong   Severity = "error"   // nothing can be measured before it is put right
	Warning Severity = "warning" // it bears on what is measured
	Note    Severity = "note"    // as it should be
)

// Finding is what was found of a testbed.
type Finding struct {
	Severity Severity `json:"severity"`
	// Where is the endpoint or path, What was found there, Remedy what to do; empty
	// where nothing has to be done.
	Where  string `json:"where"`
	What   string `json:"what"`
	Remedy string `json:"remedy,omitempty"`
}

// String is a finding in one line.
func (f Finding) String() string {
	text := f.Where + ": " + f.What
	if f.Remedy != "" {
		text += "; " + f.Remedy
	}
	return text
}
