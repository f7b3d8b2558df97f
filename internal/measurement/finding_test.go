package measurement

import (
	"encoding/json"
	"reflect"
	"testing"
)

// Format 1 wrote sentences: a gate's checks had reasons, a fingerprint said why.
func TestFindingsOfFormatOne(t *testing.T) {
	var trial Trial
	text := `{"gate":{"passed":false,"checks":[{"name":"cpu","fatal":true,"reason":"they were busy"},{"name":"loss","fatal":false,"reason":"a tenth"}]},
		"fingerprint":{"hops":[],"matches":false,"why":"another hop"}}`
	if err := json.Unmarshal([]byte(text), &trial); err != nil {
		t.Fatal(err)
	}
	want := []Finding{{Name: "cpu", Code: FoundText, Fatal: true, Text: "they were busy"}, {Name: "loss", Code: FoundText, Text: "a tenth"}}
	if trial.Gate.Passed || !reflect.DeepEqual(trial.Gate.Findings, want) {
		t.Errorf("%+v", trial.Gate)
	}
	if why := trial.Fingerprint.Why; why == nil || !reflect.DeepEqual(*why, Finding{Code: FoundText, Text: "another hop"}) {
		t.Errorf("%+v", why)
	}
	again, err := json.Marshal(trial)
	if err != nil {
		t.Fatal(err)
	}
	var now Trial
	if err := json.Unmarshal(again, &now); err != nil || !reflect.DeepEqual(now, trial) {
		t.Errorf("%v: %s became %+v", err, again, now)
	}
}
