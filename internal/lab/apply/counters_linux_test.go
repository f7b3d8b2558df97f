package apply

import (
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

func TestQueueCounters(t *testing.T) {
	counted := netlink.QdiscAttrs{Statistics: &netlink.QdiscStatistics{
		Basic: &netlink.GnetStatsBasic{Bytes: 2_500_000}, Queue: &netlink.GnetStatsQueue{Drops: 7},
	}}
	var c queueCounters
	c.add(&netlink.Tbf{QdiscAttrs: counted, Rate: 1_000_000}) // bytes per second
	c.add(&netlink.PfifoFast{QdiscAttrs: counted})
	c.add(&netlink.Tbf{})
	if want := (queueCounters{dropped: 7, meterDropped: 7, meterBusy: 2500 * time.Millisecond}); c != want {
		t.Errorf("got %+v, want %+v", c, want)
	}
}
