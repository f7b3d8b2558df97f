// Package azuretable keeps the samples of fleets in an Azure Table, an entity a block.
package azuretable

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"golang.org/x/sync/errgroup"

	"github.com/hopbench/hopbench/internal/fleet/samples"
)

// Table is where blocks are kept.
const Table = "hopbenchsample"

// Limits of the service: a property, and a transaction, which is of one partition.
// learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model
// and …/performing-entity-group-transactions.
const (
	maxPropertyBytes       = 64 << 10
	maxTransactionEntities = 100
	maxTransactionBytes    = 3 << 20 // of 4 MiB, with room for what surrounds each entity
	maxTransactions        = 16      // at a time, our own
)

// Sink is an open table.
type Sink struct {
	run    string
	place  string
	client *aztables.Client
}

var _ samples.Sink = (*Sink)(nil)

// Open takes a connection string of the storage account, and makes the table if there is
// none. What is put there is that of one run.
func Open(ctx context.Context, connection, run string) (*Sink, error) {
	service, err := account(connection)
	if err != nil {
		return nil, fmt.Errorf("read the connection string of the storage account: %w; it begins with DefaultEndpointsProtocol= or TableEndpoint=", err)
	}
	s := &Sink{run: run, place: "azure-table " + place(connection), client: service.NewClient(Table)}
	if _, err := s.client.CreateTable(ctx, nil); err != nil && code(err) != string(aztables.TableAlreadyExists) {
		return nil, fmt.Errorf("make the table %s: %w", Table, short(err))
	}
	return s, nil
}

// code is what the service calls an error, empty for one that is not its.
func code(err error) string {
	if refused, ok := errors.AsType[*azcore.ResponseError](err); ok {
		return refused.ErrorCode
	}
	return ""
}

// short is an error of the service in one line; the library's has the whole answer, and
// that of a connection the whole address, in which a shared access signature is a secret.
func short(err error) error {
	if refused, ok := errors.AsType[*azcore.ResponseError](err); ok {
		return fmt.Errorf("the service answered %s (HTTP status %d)", cmp.Or(refused.ErrorCode, http.StatusText(refused.StatusCode)), refused.StatusCode)
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err
	}
	return err
}

// Put keeps blocks, those of each seat in one transaction as far as they fit. After an
// error some of them may be kept.
func (s *Sink) Put(ctx context.Context, blocks []samples.Block) error {
	var partitions []string
	entities := map[string][]entity{}
	for _, b := range blocks {
		e := s.entity(b)
		if entities[e.PartitionKey] == nil {
			partitions = append(partitions, e.PartitionKey)
		}
		entities[e.PartitionKey] = append(entities[e.PartitionKey], e)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxTransactions)
	for _, partition := range partitions {
		group.Go(func() error { return s.put(ctx, entities[partition]) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("put samples into Azure Table: %w", short(err))
	}
	return nil
}

// entity is a block.
type entity struct {
	aztables.EDMEntity
	bytes int
}

// put keeps entities of one partition.
func (s *Sink) put(ctx context.Context, all []entity) error {
	// A transaction must not have an entity twice.
	slices.SortStableFunc(all, func(a, b entity) int { return strings.Compare(a.RowKey, b.RowKey) })
	all = slices.CompactFunc(all, func(a, b entity) bool { return a.RowKey == b.RowKey })
	for len(all) > 0 {
		var actions []aztables.TransactionAction
		bytes := 0
		for len(actions) < len(all) && len(actions) < maxTransactionEntities {
			e := all[len(actions)]
			if bytes += e.bytes; bytes > maxTransactionBytes && len(actions) > 0 {
				break
			}
			text, err := json.Marshal(e.EDMEntity)
			if err != nil {
				return err
			}
			actions = append(actions, aztables.TransactionAction{ActionType: aztables.TransactionTypeInsertReplace, Entity: text})
		}
		if _, err := s.client.SubmitTransaction(ctx, actions, nil); err != nil {
			return err
		}
		all = all[len(actions):]
	}
	return nil
}

// entity has a seat's blocks of a trial in one partition, in their order.
func (s *Sink) entity(b samples.Block) entity {
	properties := map[string]any{
		"run": s.run, "trial": b.Trial, "seat": int32(b.Seat), "attempt": int32(b.Attempt), "seq": aztables.EDMInt64(b.Seq),
		"from_ns": aztables.EDMInt64(b.From), "step_ns": aztables.EDMInt64(b.Step), "n": int32(b.Samples), "dropped": aztables.EDMInt64(b.Dropped),
		"bytes": aztables.EDMInt64(b.Bytes), "retransmits": aztables.EDMInt64(b.Retransmits), "rtt_ns_sum": aztables.EDMInt64(b.RTT), "rtt_n": aztables.EDMInt64(b.RTTMeasured),
	}
	// data, data1, data2, … put together are the block.
	i := 0
	for part := range slices.Chunk(b.Data, maxPropertyBytes) {
		name := "data"
		if i > 0 {
			name = fmt.Sprintf("data%d", i)
		}
		properties[name] = aztables.EDMBinary(part)
		i++
	}
	return entity{
		EDMEntity: aztables.EDMEntity{
			Entity: aztables.Entity{
				PartitionKey: fmt.Sprintf("%s!%s!%010d", key(s.run), key(b.Trial), b.Seat),
				RowKey:       fmt.Sprintf("%010d!%019d", b.Attempt, b.Seq),
			},
			Properties: properties,
		},
		bytes: 4*len(b.Data)/3 + 2048, // base64
	}
}

// key writes a text so that it may be a part of a key, which must not have / \ # ? and
// control characters; what is no plain letter, digit, dot or hyphen is its bytes in
// hexadecimal after a tilde.
func key(text string) string {
	var out strings.Builder
	for _, b := range []byte(text) {
		switch {
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9', b == '.', b == '-':
			out.WriteByte(b)
		default:
			fmt.Fprintf(&out, "~%02x", b)
		}
	}
	return out.String()
}

// Place is the storage account.
func (s *Sink) Place() string { return s.place }

// Close does nothing: there is no connection of its own.
func (s *Sink) Close() error { return nil }
