package ui

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/testutil"
)

// Whatever a request says: who has not the token, or calls this machine by a name that is
// none of its own, sees no page.
func FuzzGuard(f *testing.F) {
	stream := event.NewStream()
	page, err := Listen(f.Context(), Options{Address: "127.0.0.1:0", Stream: stream})
	testutil.OK(f, err)
	f.Cleanup(func() {
		stream.Close()
		if err := page.Close(); err != nil {
			f.Error(err)
		}
	})
	own, err := url.Parse(page.URL())
	testutil.OK(f, err)
	let := false
	guarded := page.guarded(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { let = true }))
	const token, port = "TOKEN", "PORT" // they are others each time
	for _, host := range []string{"127.0.0.1:PORT", "localhost:PORT", "[::1%25lo]:PORT", "evil.example:PORT", "127.0.0.1.evil.example:PORT", "localhost", "[", ":PORT", ""} {
		for _, path := range []string{"/TOKEN/", "/TOKEN/run/a", "/TOKEN", "//TOKEN/", "/", "", "/TOKEN%2f", "/token/", "/TOKEN/../x"} {
			f.Add(http.MethodGet, host, path)
		}
	}
	f.Add(http.MethodPost, "127.0.0.1:PORT", "/TOKEN/")
	f.Fuzz(func(t *testing.T, method, host, path string) {
		host, path = strings.ReplaceAll(host, port, own.Port()), strings.ReplaceAll(path, token, page.token)
		let = false
		guarded.ServeHTTP(httptest.NewRecorder(), &http.Request{Method: method, Host: host, URL: &url.URL{Path: path}, Header: http.Header{}})
		if !let {
			return
		}
		name, isOurs := strings.CutSuffix(host, ":"+own.Port())
		address := strings.Trim(name, "[]")
		_, err := netip.ParseAddr(address)
		isOurs = isOurs && (err == nil || strings.EqualFold(address, "localhost"))
		if !isOurs || !strings.HasPrefix(strings.TrimPrefix(path, "/"), page.token+"/") || method != http.MethodGet && method != http.MethodHead {
			t.Errorf("%q %q %q is let in", method, host, path)
		}
	})
}
