package result

import "github.com/hopbench/hopbench/internal/measurement"

// PublishedFormat is the version of files of published figures and of their
// JSON.
const PublishedFormat = "hopbench.published/1"

// PublishedData is what studies printed, number by number.
type PublishedData struct {
	Format  string           `json:"format"`
	Studies []PublishedStudy `json:"studies"`
}

// PublishedStudy is one write-up.
type PublishedStudy struct {
	Name     string             `json:"name"`
	Title    string             `json:"title"`
	About    string             `json:"about,omitempty"`
	Settings []PublishedSetting `json:"settings"`
}

// PublishedSetting is one way in which a row of a published table was measured.
type PublishedSetting struct {
	ID            string              `json:"id"` // of the row: "E5.1"
	Path          string              `json:"path"`
	Encapsulation string              `json:"encapsulation,omitempty"`
	Machine       string              `json:"machine,omitempty"`
	Tool          string              `json:"tool,omitempty"`
	Flows         int                 `json:"flows,omitempty"` // 0 where it was not said
	Duration      measurement.Seconds `json:"duration_seconds,omitempty"`
	Says          string              `json:"says,omitempty"` // what the row says without a number
	Figures       []PublishedNumber   `json:"figures,omitempty"`
}

// The ends whose count a PublishedNumber may be.
const (
	PublishedSender   = "sender"
	PublishedReceiver = "receiver"
)

// PublishedNumber is one number of a setting.
type PublishedNumber struct {
	// Metric is a name of Catalogue where there is one.
	Metric string           `json:"metric"`
	Label  string           `json:"label"`
	Unit   measurement.Unit `json:"unit"`
	Value  float64          `json:"value"` // in Unit
	// Printed is the number as it stood there.
	Printed string `json:"printed"`
	// End is whose count it is, empty where that was not said.
	End string `json:"end,omitempty"`
	// Run and Second are counted from 1, and 0 where there is only one, or the
	// whole run is meant.
	Run    int    `json:"run,omitempty"`
	Second int    `json:"second,omitempty"`
	Note   string `json:"note,omitempty"`
}

// Readings are the numbers of a metric that were read second by second.
func (s PublishedSetting) Readings(metric string) []float64 {
	var out []float64
	for _, f := range s.Figures {
		if f.Metric == metric && f.Second > 0 {
			out = append(out, f.Value)
		}
	}
	return out
}
