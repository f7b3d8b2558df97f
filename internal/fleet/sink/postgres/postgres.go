// Package postgres keeps the samples of fleets in a table of a PostgreSQL database, a row
// a block.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hopbench/hopbench/internal/fleet/samples"
)

// Table is where blocks are kept, in the schema that is the connection's first.
const Table = "hopbench_sample"

// run comes before the key of a block, as a database may have many runs.
const create = `CREATE TABLE IF NOT EXISTS ` + Table + ` (
	run text NOT NULL, trial text NOT NULL, seq bigint NOT NULL, seat integer NOT NULL, attempt integer NOT NULL,
	from_ns bigint NOT NULL, step_ns bigint NOT NULL, n integer NOT NULL, dropped bigint NOT NULL,
	bytes bigint NOT NULL, retransmits bigint NOT NULL, rtt_ns_sum bigint NOT NULL, rtt_n bigint NOT NULL, data bytea NOT NULL,
	PRIMARY KEY (run, trial, seq, seat, attempt))`

const insert = `INSERT INTO ` + Table + ` (run, trial, seq, seat, attempt, from_ns, step_ns, n, dropped, bytes, retransmits, rtt_ns_sum, rtt_n, data)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT DO NOTHING`

// maxBatchBytes bounds what is sent before answers are read.
const maxBatchBytes = 4 << 20

// Sink is an open table.
type Sink struct {
	run, place string
	connection *pgconn.PgConn
}

var _ samples.Sink = (*Sink)(nil)

// Open connects as libpq does (a URL or words, PGPASSFILE and the like apply), and makes
// the table if there is none. What is put there is that of one run.
func Open(ctx context.Context, connection, run string) (*Sink, error) {
	config, err := pgconn.ParseConfig(connection)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", withoutSecrets(err))
	}
	c, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w; is it there, and may this user in?", err)
	}
	place := fmt.Sprintf("postgres %s@%s/%s", config.User, net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port))), config.Database)
	if path := config.RuntimeParams["search_path"]; path != "" {
		place += " " + path
	}
	s := &Sink{run: run, place: place, connection: c}
	// Two that make the table at the same time would both fail (23505) but for a lock.
	if _, err := c.Exec(ctx, "BEGIN; SELECT pg_advisory_xact_lock(hashtext('"+Table+"')); "+create+"; COMMIT").ReadAll(); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("make the table %s: %w; may this user make tables?", Table, err)
	}
	if _, err := c.Prepare(ctx, "put", insert, nil); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("the table %s is there and is another: %w", Table, err)
	}
	return s, nil
}

// withoutSecrets is the error of a connection that cannot be read. That of the library has the
// connection, of which it leaves out only the passwords that it finds: another secret that was
// given by mistake would be shown whole.
func withoutSecrets(err error) error {
	if file, is := errors.AsType[*fs.PathError](err); is { // such as a certificate that it names
		return file
	}
	return errors.New("what the file has cannot be read; write a URL, postgres://USER:PASSWORD@HOST/DATABASE with each special character of the password as %XX, or keywords as in host=HOST user=USER password=PASSWORD dbname=DATABASE, and of sslmode, port and the like a value that they can have")
}

// Put keeps all blocks or, where several megabytes are put at once, the first of them.
func (s *Sink) Put(ctx context.Context, blocks []samples.Block) error {
	for len(blocks) > 0 {
		n, bytes := 0, 0
		var batch pgconn.Batch // in one transaction
		for n < len(blocks) && bytes < maxBatchBytes {
			b := blocks[n]
			batch.ExecPrepared("put", s.row(b), formats, nil)
			bytes += len(b.Data)
			n++
		}
		if _, err := s.connection.ExecBatch(ctx, &batch).ReadAll(); err != nil {
			return fmt.Errorf("put samples into PostgreSQL: %w", err)
		}
		blocks = blocks[n:]
	}
	return nil
}

// formats say that the last value, the block, is binary, and the others are text.
var formats = []int16{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}

func (s *Sink) row(b samples.Block) [][]byte {
	number := func(v int64) []byte { return strconv.AppendInt(nil, v, 10) }
	return [][]byte{
		[]byte(s.run), []byte(b.Trial), number(b.Seq), number(int64(b.Seat)), number(int64(b.Attempt)),
		number(int64(b.From)), number(int64(b.Step)), number(int64(b.Samples)), number(b.Dropped),
		number(b.Bytes), number(b.Retransmits), number(int64(b.RTT)), number(b.RTTMeasured), b.Data,
	}
}

// Place is the server, its database, and what decides which schema it is.
func (s *Sink) Place() string { return s.place }

// Close ends the connection.
func (s *Sink) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return s.connection.Close(ctx)
}
