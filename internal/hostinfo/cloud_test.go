package hostinfo

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Each cloud is asked as it wants to be; what is none of them is not asked at all.
func TestCloud(t *testing.T) {
	answers := map[string]string{
		"GET /metadata/instance/compute?api-version=2021-02-01 true": `{"vmSize":"Standard_D4s_v5","location":"westeurope","zone":"1","more":{}}`,
		"PUT /latest/api/token 60":                                   "secret",
		"GET /latest/dynamic/instance-identity/document secret":      `{"instanceType":"c7gn.4xlarge","region":"eu-west-1","availabilityZone":"eu-west-1b"}`,
		"GET /computeMetadata/v1/instance/machine-type Google":       "projects/1/machineTypes/e2-medium",
		"GET /computeMetadata/v1/instance/zone Google":               "projects/1/zones/europe-west1-b",
	}
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		header := r.Header.Get("Metadata") + r.Header.Get("X-aws-ec2-metadata-token-ttl-seconds") + r.Header.Get("X-aws-ec2-metadata-token") + r.Header.Get("Metadata-Flavor")
		answer, ok := answers[fmt.Sprintf("%s %s %s", r.Method, r.URL.RequestURI(), header)]
		if !ok {
			http.Error(w, "no", http.StatusNotFound)
			return
		}
		fmt.Fprint(w, answer)
	}))
	defer server.Close()
	for vendor, want := range map[string]string{
		"Microsoft Corporation": "Azure, Standard_D4s_v5, westeurope, 1",
		"Amazon EC2":            "AWS, c7gn.4xlarge, eu-west-1, eu-west-1b",
		"Google":                "Google Cloud, e2-medium, europe-west1-b",
	} {
		// Without the bound of its time, which a busy machine may pass.
		says, err := clouds[vendor].ask(t.Context(), server.URL)
		if got := strings.Join(append([]string{clouds[vendor].name}, says...), ", "); err != nil || strings.TrimSuffix(got, ", ") != want {
			t.Errorf("%s is %q, want %q: %v", vendor, got, want, err)
		}
	}
	before := asked
	if got := cloud(t.Context(), "QEMU", server.URL); got != "" || asked != before {
		t.Errorf("another vendor is %q", got)
	}
	clear(answers)
	if got := cloud(t.Context(), "Microsoft Corporation", server.URL); got != "" {
		t.Errorf("without a service %q", got)
	}
	answers["GET /metadata/instance/compute?api-version=2021-02-01 true"] = `{"vmSize":"` + strings.Repeat("x", 2*maxMetadata)
	if got := cloud(t.Context(), "Microsoft Corporation", server.URL); got != "" {
		t.Errorf("of a service that never ends: %.50q", got)
	}
}
