package azuretable

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/fleet/samples"
	"github.com/hopbench/hopbench/internal/testutil"
)

// answerOf is what the service answers to a transaction, with what it says of one operation.
func answerOf(operation string) string {
	return "--batchresponse_1\r\nContent-Type: multipart/mixed; boundary=changesetresponse_1\r\n\r\n" +
		"--changesetresponse_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n" +
		operation + "\r\n--changesetresponse_1--\r\n--batchresponse_1--\r\n"
}

// refusal is one within an answer.
func refusal(status, code string) string {
	return answerOf("HTTP/1.1 " + status + "\r\nContent-Type: application/json\r\n\r\n" +
		`{"odata.error":{"code":"` + code + `","message":{"lang":"en-US","value":"0:That is why.\nRequestId:1"}}}`)
}

var done = answerOf("HTTP/1.1 204 No Content\r\nX-Content-Type-Options: nosniff\r\n\r\n\r\n")

// answering is a sink at a service that answers transactions so, one after the other.
func answering(t *testing.T, texts ...string) *Sink {
	t.Helper()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/$batch") {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Retry-After-Ms", "1")
		w.WriteHeader(http.StatusAccepted)
		if len(texts) > 0 { // one after the other: a sink has one transaction of a partition
			_, _ = io.WriteString(w, texts[0])
			texts = texts[1:]
		}
	}))
	t.Cleanup(service.Close)
	s, err := Open(t.Context(), "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=c2VjcmV0;TableEndpoint="+service.URL+"/a;", "run")
	testutil.OK(t, err)
	return s
}

func block(t *testing.T) samples.Block {
	t.Helper()
	coder, err := samples.NewCoder()
	testutil.OK(t, err)
	o := samples.NewOutbox(coder, 1<<20)
	testutil.OK(t, o.Acknowledge(0, 1<<20))
	testutil.OK(t, o.Add("t", 1, 1, 1e9, []samples.Sample{{Flow: 1, Bytes: 1}}))
	b, _ := o.Next()
	return b
}

// What a service refuses within a transaction is named as it names it, and tried again where it
// was only busy.
func TestRefusedTransactions(t *testing.T) {
	busy := refusal("503 Service Unavailable", "ServerBusy")
	testutil.OK(t, answering(t, done).Put(t.Context(), []samples.Block{block(t)}))
	testutil.OK(t, answering(t, busy, busy, done).Put(t.Context(), []samples.Block{block(t)}))
	for text, want := range map[string]string{
		refusal("400 Bad Request", "PropertyValueTooLarge"):             "the service answered PropertyValueTooLarge (HTTP status 400)",
		answerOf("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"): "the service answered Forbidden (HTTP status 403)",
	} {
		if err := answering(t, text).Put(t.Context(), []samples.Block{block(t)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// What is no answer to a transaction is an error, and ends no run.
func TestAnswersThatAreNone(t *testing.T) {
	for _, text := range []string{"", "-", "x", "--", "--\n", "<html></html>", "<html>\n", "--a\r\n\r\n--a--\r\n", "--a\r\n\r\n\r\n--a--\r\n", answerOf(""), done[:40], done[:160]} {
		if err := answering(t, text).Put(t.Context(), []samples.Block{block(t)}); !errors.Is(err, noAnswerError{}) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
