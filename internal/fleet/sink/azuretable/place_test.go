package azuretable

import "testing"

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
