// Package sinks_test holds the sinks of samples to their contract on real servers:
// PostgreSQL, and Azurite, which stands in for Azure's tables. Both belong to the test,
// are reached over loopback alone, and end with it.
package sinks_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/hopbench/hopbench/experiments"
	"github.com/hopbench/hopbench/internal/cli"
	"github.com/hopbench/hopbench/internal/fleet/collect"
	"github.com/hopbench/hopbench/internal/fleet/samples"
	"github.com/hopbench/hopbench/internal/fleet/sink/azuretable"
	"github.com/hopbench/hopbench/internal/fleet/sink/postgres"
	"github.com/hopbench/hopbench/internal/fleet/sink/sinktest"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestPostgres(t *testing.T) {
	db := startPostgres(t)
	sinktest.Run(t, sinktest.Place{
		Open: func(ctx context.Context, run string) (samples.Sink, error) { return postgres.Open(ctx, db.url(), run) },
		Kept: func(t *testing.T, run string) (kept [][]byte) {
			for line := range strings.Lines(db.psql(t, "SELECT encode(data, 'hex') FROM "+postgres.Table+" WHERE run = :'run'", run)) {
				data, err := hex.DecodeString(strings.TrimSpace(line))
				testutil.OK(t, err)
				kept = append(kept, data)
			}
			return kept
		},
	})
	t.Run("refusals", func(t *testing.T) {
		for name, url := range map[string]string{
			"wrong password": strings.Replace(db.url(), password, "x", 1),
			"no server":      strings.Replace(db.url(), fmt.Sprint(db.port), "1", 1),
			"no URL":         "://",
		} {
			if s, err := postgres.Open(t.Context(), url, "r"); err == nil || strings.Contains(err.Error(), password) {
				t.Errorf("%s: %v, %v", name, s, err)
			}
		}
		db.psql(t, "CREATE SCHEMA other; CREATE TABLE other."+postgres.Table+" (x int)", "")
		if _, err := postgres.Open(t.Context(), db.url()+"&search_path=other", "r"); err == nil || !strings.Contains(err.Error(), "is another") {
			t.Errorf("a table of somebody else's: %v", err)
		}
	})
	t.Run("export", func(t *testing.T) { exportInto(t, db) })
	t.Run("fed", func(t *testing.T) { feedInto(t, db) })
	t.Run("server ends", func(t *testing.T) {
		s, err := postgres.Open(t.Context(), db.url(), "r")
		testutil.OK(t, err)
		db.stop()
		if err := s.Put(t.Context(), []samples.Block{{Header: samples.Header{Key: samples.Key{Trial: "t"}}}}); err == nil {
			t.Error("a server that is gone kept a block")
		}
		_ = s.Close()
	})
}

// exportInto has the command fill the database from a run's folder, twice.
func exportInto(t *testing.T, db *cluster) {
	text, err := experiments.Read("routing-appliance")
	testutil.OK(t, err)
	dir := filepath.Join(t.TempDir(), "run")
	st, err := store.Create(dir, store.Head{Experiment: string(text), File: "routing-appliance.yaml", Name: "routing-appliance", Seed: 1, Blocks: 6, Started: time.Unix(1_800_000_000, 0)})
	testutil.OK(t, err)
	const trial, seats, seconds = "b01-direct-flows-1", 3, 20
	testutil.OK(t, st.Put(t.Context(), measurement.Trial{ID: trial, Block: 1, Order: 1, Path: "direct", Test: "flows-1", Gate: measurement.Gate{Passed: true}}))
	coder, err := samples.NewCoder()
	testutil.OK(t, err)
	for attempt := 1; attempt <= 2; attempt++ { // of which the second counts
		for seat := 1; seat <= seats; seat++ {
			o := samples.NewOutbox(coder, 1<<20)
			testutil.OK(t, o.Acknowledge(0, 1<<20))
			for second := range seconds {
				testutil.OK(t, o.Add(trial, seat, attempt, time.Second, []samples.Sample{{At: time.Duration(second) * time.Second, Flow: 1, Bytes: int64(1000 * attempt)}}))
				b, _ := o.Next()
				testutil.OK(t, st.PutSamples(t.Context(), []samples.Block{b}))
			}
		}
	}
	testutil.OK(t, st.Close())
	connection := filepath.Join(t.TempDir(), "connection")
	testutil.OK(t, os.WriteFile(connection, []byte(db.url()+"\n"), 0o600))
	for range 2 {
		var out, complaints bytes.Buffer
		if status := cli.Main([]string{"export", dir, "--to", "postgres", "--connection-file", connection}, os.Stdin, &out, &complaints); status != 0 || out.Len() > 0 || complaints.String() != "export: 60 blocks in postgres\n" {
			t.Fatalf("status %d, %s%s", status, out.Bytes(), complaints.Bytes())
		}
		got := db.psql(t, "SELECT count(*), sum(n), sum(bytes), min(attempt) FROM "+postgres.Table+" WHERE run = :'run'", "routing-appliance 2027-01-15T08:00:00Z")
		if strings.TrimSpace(got) != "60|60|120000|2" {
			t.Errorf("the database has %s", got)
		}
	}
	var out, complaints bytes.Buffer
	if status := cli.Main([]string{"export", dir, "--format", "csv", "-o", "-"}, os.Stdin, &out, &complaints); status != 0 || strings.Count(out.String(), "\n"+trial+",direct,flows-1,true,2,") != seats*seconds {
		t.Errorf("status %d, %s%s", status, complaints.Bytes(), out.Bytes())
	}
}

// feedInto feeds the database from a run that goes on, whose connection ends meanwhile, and
// goes on after a restart.
func feedInto(t *testing.T, db *cluster) {
	st, err := store.Create(filepath.Join(t.TempDir(), "run"), store.Head{Name: "fed"})
	testutil.OK(t, err)
	defer func() { testutil.OK(t, st.Close()) }()
	coder, err := samples.NewCoder()
	testutil.OK(t, err)
	box := samples.NewOutbox(coder, 1<<20)
	testutil.OK(t, box.Acknowledge(0, 1<<20))
	second := 0
	add := func() {
		testutil.OK(t, box.Add("t", 1, 1, time.Second, []samples.Sample{{At: time.Duration(second) * time.Second, Flow: 1, Bytes: 1}}))
		b, _ := box.Next()
		testutil.OK(t, st.PutSamples(t.Context(), []samples.Block{b}))
		second++
	}
	for restart := range 3 {
		f, err := collect.Feed(t.Context(), collect.FeedOptions{Table: st, Every: time.Millisecond, Open: func(ctx context.Context) (samples.Sink, error) {
			sink, err := postgres.Open(ctx, db.url(), "fed")
			if err != nil {
				return nil, err
			}
			if want := fmt.Sprintf("postgres hopbench@127.0.0.1:%d/postgres", db.port); sink.Place() != want {
				t.Errorf("it is %q, want %q", sink.Place(), want)
			}
			return sink, nil
		}})
		testutil.OK(t, err)
		for range 40 {
			add()
		}
		db.psql(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename = 'hopbench'", "")
		for range 40 {
			add()
		}
		testutil.OK(t, f.Drain(t.Context()))
		testutil.OK(t, f.Close())
		if got := strings.TrimSpace(db.psql(t, "SELECT count(*), count(DISTINCT seq), sum(bytes) FROM "+postgres.Table+" WHERE run = 'fed'", "")); got != fmt.Sprintf("%d|%d|%d", second, second, second) {
			t.Errorf("start %d: the database has %s of %d blocks", restart+1, got, second)
		}
	}
}

// password is the superuser's of the test's own cluster.
const password = "of-the-test-alone"

type cluster struct {
	bin, dir string
	port     uint16
	stop     func()
}

// owner is who runs the server, which root may not.
func owner(t *testing.T) *syscall.Credential {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	testutil.Need(t, err == nil, "the user postgres, since root cannot run PostgreSQL")
	uid, err := strconv.Atoi(u.Uid)
	testutil.OK(t, err)
	gid, err := strconv.Atoi(u.Gid)
	testutil.OK(t, err)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func startPostgres(t *testing.T) *cluster {
	t.Helper()
	bins, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	testutil.OK(t, err)
	testutil.Need(t, len(bins) > 0, "PostgreSQL (Debian's package postgresql)")
	as := owner(t)
	// Not t.TempDir, which nobody else may enter.
	dir, err := os.MkdirTemp("", "hopbench-sinks-")
	testutil.OK(t, err)
	t.Cleanup(func() { testutil.OK(t, os.RemoveAll(dir)) })
	if as != nil {
		testutil.OK(t, os.Chown(dir, int(as.Uid), int(as.Gid)))
	}
	c := &cluster{bin: filepath.Dir(bins[len(bins)-1]), dir: dir}
	secret := filepath.Join(dir, "password")
	testutil.OK(t, os.WriteFile(secret, []byte(password+"\n"), 0o644))
	initdb := exec.CommandContext(t.Context(), filepath.Join(c.bin, "initdb"), "-D", c.data(), "-U", "hopbench", "--auth=scram-sha-256", "--pwfile="+secret, "--no-sync", "--no-locale", "--encoding=UTF8")
	initdb.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	initdb.Dir = dir
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	c.port, err = testutil.FreePort()
	testutil.OK(t, err)
	server := exec.Command(filepath.Join(c.bin, "postgres"), "-D", c.data(), "-p", fmt.Sprint(c.port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="+dir, "-c", "fsync=off")
	server.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	server.Dir = dir
	c.stop = start(t, server, syscall.SIGINT, func() bool { // which ends connections, too
		return exec.CommandContext(t.Context(), filepath.Join(c.bin, "pg_isready"), "-q", "-h", "127.0.0.1", "-p", fmt.Sprint(c.port)).Run() == nil
	})
	return c
}

func (c *cluster) data() string { return filepath.Join(c.dir, "data") }

func (c *cluster) url() string {
	return fmt.Sprintf("postgres://hopbench:%s@127.0.0.1:%d/postgres?sslmode=disable", password, c.port)
}

// psql runs a statement in which :'run' is a run's name.
func (c *cluster) psql(t *testing.T, statement, run string) string {
	t.Helper()
	p := exec.CommandContext(t.Context(), filepath.Join(c.bin, "psql"), "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-v", "run="+run, c.url())
	p.Stdin = strings.NewReader(statement + ";\n")
	var complaints bytes.Buffer
	p.Stderr = &complaints
	out, err := p.Output()
	if err != nil {
		t.Fatalf("psql: %v\n%s", err, complaints.Bytes())
	}
	return string(out)
}

// start starts a server, waits until it is ready, and ends it with a signal.
func start(t *testing.T, server *exec.Cmd, end os.Signal, ready func() bool) (stop func()) {
	t.Helper()
	var said bytes.Buffer
	server.Stdout, server.Stderr = &said, &said
	server.WaitDelay = time.Second
	// It ends with this program, whatever becomes of that.
	server.SysProcAttr.Pdeathsig = syscall.SIGKILL
	testutil.OK(t, server.Start())
	ended := make(chan struct{})
	go func() { _ = server.Wait(); close(ended) }()
	stop = func() {
		_ = server.Process.Signal(end)
		<-ended
	}
	t.Cleanup(stop)
	for !ready() {
		select {
		case <-ended:
			t.Fatalf("%s ended: %s", server.Path, said.Bytes())
		case <-time.After(50 * time.Millisecond):
		}
	}
	return stop
}

func TestAzureTable(t *testing.T) {
	azurite, err := exec.LookPath("azurite-table")
	testutil.Need(t, err == nil, "azurite-table on PATH (npm install azurite@3.35.0)")
	port, err := testutil.FreePort()
	testutil.OK(t, err)
	server := exec.Command(azurite, "--inMemoryPersistence", "--disableTelemetry", "--silent", "--tableHost", "127.0.0.1", "--tablePort", fmt.Sprint(port))
	server.Dir = t.TempDir()
	key := base64.StdEncoding.EncodeToString([]byte("a key of the test alone"))
	server.Env = append(os.Environ(), "AZURITE_ACCOUNTS=testaccount:"+key)
	server.SysProcAttr = &syscall.SysProcAttr{}
	stop := start(t, server, syscall.SIGTERM, func() bool {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		return err == nil && conn.Close() == nil
	})
	connection := fmt.Sprintf("DefaultEndpointsProtocol=http;AccountName=testaccount;AccountKey=%s;TableEndpoint=http://127.0.0.1:%d/testaccount;", key, port)
	service, err := aztables.NewServiceClientFromConnectionString(connection, nil)
	testutil.OK(t, err)
	table := service.NewClient(azuretable.Table)
	sinktest.Run(t, sinktest.Place{
		Open: func(ctx context.Context, run string) (samples.Sink, error) {
			return azuretable.Open(ctx, connection, run)
		},
		Kept: func(t *testing.T, run string) (kept [][]byte) {
			filter := "run eq '" + strings.ReplaceAll(run, "'", "''") + "'"
			for pager := table.NewListEntitiesPager(&aztables.ListEntitiesOptions{Filter: &filter}); pager.More(); {
				page, err := pager.NextPage(t.Context())
				testutil.OK(t, err)
				for _, text := range page.Entities {
					kept = append(kept, blockOf(t, text))
				}
			}
			return kept
		},
	})
	t.Run("refusals", func(t *testing.T) {
		for name, wrong := range map[string]string{
			"no connection string": "x",
			"wrong key":            strings.Replace(connection, key, base64.StdEncoding.EncodeToString([]byte("another")), 1),
		} {
			if _, err := azuretable.Open(t.Context(), wrong, "r"); err == nil || strings.Contains(err.Error(), key) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	t.Run("shared access signature", func(t *testing.T) {
		owner, err := aztables.NewSharedKeyCredential("testaccount", key)
		testutil.OK(t, err)
		signature, err := aztables.AccountSASSignatureValues{
			Protocol: aztables.SASProtocolHTTPSandHTTP, ExpiryTime: time.Now().Add(time.Hour), Services: "t", ResourceTypes: "co", Permissions: "rwauc",
		}.Sign(owner)
		testutil.OK(t, err)
		s, err := azuretable.Open(t.Context(), fmt.Sprintf("TableEndpoint=http://127.0.0.1:%d/testaccount/;SharedAccessSignature=%s", port, signature.Encode()), "signed")
		testutil.OK(t, err)
		testutil.OK(t, s.Put(t.Context(), []samples.Block{{Header: samples.Header{Key: samples.Key{Trial: "t"}}}}))
	})
	t.Run("server ends", func(t *testing.T) {
		s, err := azuretable.Open(t.Context(), connection, "r")
		testutil.OK(t, err)
		stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Put(ctx, []samples.Block{{Header: samples.Header{Key: samples.Key{Trial: "t"}}}}); err == nil {
			t.Error("a server that is gone kept a block")
		}
		testutil.OK(t, s.Close())
	})
}

// blockOf puts the parts of an entity's block together.
func blockOf(t *testing.T, text []byte) []byte {
	t.Helper()
	var entity map[string]any
	testutil.OK(t, json.Unmarshal(text, &entity))
	var data []byte
	for i := range 100 {
		name := "data"
		if i > 0 {
			name = fmt.Sprint("data", i)
		}
		part, ok := entity[name].(string)
		if !ok {
			break
		}
		b, err := base64.StdEncoding.DecodeString(part)
		testutil.OK(t, err)
		data = slices.Concat(data, b)
	}
	return data
}
