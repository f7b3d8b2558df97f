package azuretable

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/fleet/samples"
	"github.com/hopbench/hopbench/internal/testutil"
)

// Where an account is has no secret in it.
func TestPlace(t *testing.T) {
	for connection, want := range map[string]string{
		"DefaultEndpointsProtocol=https;AccountName=fw;AccountKey=c2VjcmV0;EndpointSuffix=core.windows.net": "fw",
		"AccountName=fw; AccountKey=c2VjcmV0; TableEndpoint=http://127.0.0.1:10002/fw;":                     "fw http://127.0.0.1:10002/fw",
		"TableEndpoint=https://fw.table.core.windows.net?sig=c2VjcmV0;SharedAccessSignature=sig=c2VjcmV0":   "https://fw.table.core.windows.net",
	} {
		if got := place(connection); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A shared access signature goes to the endpoint that its connection string names, with an
// account's name or without, as the portal of Azure writes it.
func TestSharedAccessSignatures(t *testing.T) {
	var asked []string
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked = append(asked, r.URL.Path+" "+r.URL.Query().Get("sig")) // one after the other
		if !strings.HasSuffix(r.URL.Path, "/$batch") {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, done)
	}))
	t.Cleanup(service.Close)
	const signature = "SharedAccessSignature=sv=2022-11-02&ss=t&sig=c2Vj%2BmV0"
	for _, connection := range []string{
		"BlobEndpoint=https://fw.blob.invalid/;TableEndpoint=" + service.URL + "/fw/;" + signature,
		"AccountName=fw; TableEndpoint=" + service.URL + "/fw;" + signature + ";",
		"DefaultEndpointsProtocol=http;AccountName=fw;EndpointSuffix=invalid;TableEndpoint=" + service.URL + "/fw;" + strings.Replace(signature, "=", "=?", 1),
	} {
		asked = nil
		s, err := Open(t.Context(), connection, "run")
		testutil.OK(t, err)
		testutil.OK(t, s.Put(t.Context(), []samples.Block{block(t)}))
		if want := []string{"/fw/Tables c2Vj+mV0", "/fw/$batch c2Vj+mV0"}; !slices.Equal(asked, want) {
			t.Errorf("%s: asked %q, want %q", connection, asked, want)
		}
	}
}

// Where no endpoint is written it is that of the account, in its cloud. A key goes before a
// signature.
func TestAccounts(t *testing.T) {
	for connection, want := range map[string]string{
		"AccountName=fw;SharedAccessSignature=sig=s":                                           "https://fw.table.core.windows.net/?sig=s",
		"AccountName=fw;EndpointSuffix=core.chinacloudapi.cn;SharedAccessSignature=?sig=s":     "https://fw.table.core.chinacloudapi.cn/?sig=s",
		"TableEndpoint=https://fw.table.core.windows.net/?sig=old;SharedAccessSignature=sig=s": "https://fw.table.core.windows.net/?sig=s",
		"AccountName=fw;AccountKey=c2VjcmV0;SharedAccessSignature=sig=s":                       "",
		"SharedAccessSignature=sig=s":                                                          "",
	} {
		if got := signed(settings(split(connection))); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
