package cause

import (
	"slices"
	"testing"

	"github.com/hopbench/hopbench/internal/result"
)

// Each pair of causes is told apart by an intervention, whose responses leave one each.
func TestInterventionsTellApart(t *testing.T) {
	all := func(result.Intervention) bool { return true }
	for _, c := range []struct {
		one, other result.Cause
		by         result.Intervention
		response   result.Response // of the first
		contrary   result.Response // of the other, empty where that is not foreseen
	}{
		{result.CauseHopRate, result.CauseCongestionWindowLoss, result.Slower, result.Calms, result.Persists},
		{result.CauseHopPolicer, result.CauseCongestionWindowLoss, result.Slower, result.Calms, result.Persists},
		{result.CauseHopFlowRate, result.CauseCongestionWindowLoss, result.Slower, result.Calms, result.Persists},
		{result.CauseHopRate, result.CauseCongestionWindowDelay, result.Slower, result.Calms, ""},
		{result.CauseHopRate, result.CauseUnknown, result.Slower, result.Calms, ""},
		{result.CauseHopRate, result.CauseHopFlowRate, result.TwiceFlows, result.Stays, result.Rises},
		{result.CauseReceiveWindow, result.CauseCongestionWindowLoss, result.Slower, "", result.Persists},
		{result.CauseReceiveWindow, result.CauseCongestionWindowDelay, result.TwiceWindow, result.Rises, result.Stays},
		{result.CauseReceiveWindow, result.CauseReceiverApplication, result.TwiceWindow, result.Rises, result.Stays},
		{result.CauseSendBuffer, result.CauseSenderApplication, result.TwiceWindow, result.Rises, result.Stays},
		{result.CauseSendBuffer, result.CauseUnknown, result.TwiceWindow, result.Rises, result.Stays},
		{result.CauseSourceThread, result.CauseSourceCap, result.TwiceFlows, result.Rises, result.Stays},
	} {
		among := []result.Cause{c.one, c.other}
		by, ok := intervene(among, all)
		if !ok || by != c.by {
			t.Errorf("%v: %q, want %s", among, by, c.by)
		}
		for response, want := range map[result.Response]result.Cause{c.response: c.one, c.contrary: c.other} {
			if rest := consistent(among, by, response); response != "" && !slices.Equal(rest, []result.Cause{want}) {
				t.Errorf("%v: after %s it %s: %v, want %s", among, by, response, rest, want)
			}
		}
	}
	if by, ok := intervene([]result.Cause{result.CauseSenderApplication, result.CauseSourceThread}, all); ok {
		t.Errorf("%s is to tell apart what responds alike", by)
	}
	if by, ok := intervene([]result.Cause{result.CauseHopRate, result.CauseCongestionWindowLoss}, func(by result.Intervention) bool { return by != result.Slower }); by != result.TwiceFlows || !ok {
		t.Errorf("without a slower test: %q", by)
	}
	one := []result.Cause{result.CauseHopRate, result.CauseHopFlowRate}
	if rest := consistent(one, result.Slower, result.Persists); !slices.Equal(rest, one) {
		t.Errorf("a response that fits none leaves %v", rest)
	}
}
