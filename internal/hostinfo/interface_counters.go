package hostinfo

// InterfaceCounters are what an interface has received and sent. Only differences
// between two readings mean anything.
type InterfaceCounters struct {
	ReceivedBytes   uint64 `json:"received_bytes"`
	ReceivedPackets uint64 `json:"received_packets"`
	ReceiveErrors   uint64 `json:"receive_errors"`
	ReceiveDrops    uint64 `json:"receive_drops"`
	SentBytes       uint64 `json:"sent_bytes"`
	SentPackets     uint64 `json:"sent_packets"`
	SendErrors      uint64 `json:"send_errors"`
	SendDrops       uint64 `json:"send_drops"`
}

// ConntrackCounters are those of the table of connections that a stateful packet filter
// keeps: how many there are and may be, and, of which only differences mean anything,
// packets dropped because one could not be added, entries dropped early to make room,
// and entries that could not be inserted.
type ConntrackCounters struct {
	Entries        uint64 `json:"entries"`
	MaxEntries     uint64 `json:"max_entries"`
	Drops          uint64 `json:"drops"`
	EarlyDrops     uint64 `json:"early_drops"`
	InsertFailures uint64 `json:"insert_failures"`
}
