package hostinfo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/printable"
)

const (
	// metadata is where the clouds tell a virtual machine what it is: a link-local
	// address that never leaves its host.
	metadata = "http://169.254.169.254"
	// metadataTime is how long the answer may take; a service that is there answers at
	// once.
	metadataTime = 200 * time.Millisecond
	// maxMetadata bounds an answer, and maxMetadataText each word of it.
	maxMetadata     = 64 << 10
	maxMetadataText = 100
)

// clouds ask a metadata service, by the vendor that the firmware names (SMBIOS system
// manufacturer).
var clouds = map[string]struct {
	name string
	ask  func(context.Context, string) ([]string, error)
}{
	"Microsoft Corporation": {"Azure", askAzure},
	"Amazon EC2":            {"AWS", askAWS},
	"Google":                {"Google Cloud", askGoogle},
}

// cloudOf says which cloud this machine is in, its size, region and zone: "Azure,
// Standard_D4s_v5, westeurope, 1". It is empty where the firmware names no cloud, or
// its metadata service does not answer at once.
func cloudOf(ctx context.Context) string {
	return cloud(ctx, line("/sys/class/dmi/id/sys_vendor"), metadata)
}

func cloud(ctx context.Context, vendor, service string) string {
	c, known := clouds[vendor]
	if !known {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, metadataTime)
	defer cancel()
	says, err := c.ask(ctx, service)
	if err != nil {
		return "" // Hyper-V, for one, has the vendor of Azure and no such service
	}
	words := []string{c.name}
	for _, s := range says {
		if s = printable.Line(s, maxMetadataText); s != "" {
			words = append(words, s)
		}
	}
	return strings.Join(words, ", ")
}

// askAzure asks the Azure Instance Metadata Service.
func askAzure(ctx context.Context, service string) ([]string, error) {
	var m struct{ VMSize, Location, Zone string }
	text, err := fetch(ctx, http.MethodGet, service+"/metadata/instance/compute?api-version=2021-02-01", "Metadata", "true")
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	return []string{m.VMSize, m.Location, m.Zone}, err
}

// askAWS asks the EC2 Instance Metadata Service, version 2.
func askAWS(ctx context.Context, service string) ([]string, error) {
	token, err := fetch(ctx, http.MethodPut, service+"/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds", "60")
	if err != nil {
		return nil, err
	}
	var m struct{ InstanceType, Region, AvailabilityZone string }
	text, err := fetch(ctx, http.MethodGet, service+"/latest/dynamic/instance-identity/document", "X-aws-ec2-metadata-token", string(token))
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	return []string{m.InstanceType, m.Region, m.AvailabilityZone}, err
}

// askGoogle asks the metadata server of Compute Engine, which answers with names of
// resources: projects/1/zones/europe-west1-b.
func askGoogle(ctx context.Context, service string) ([]string, error) {
	var says []string
	for _, what := range []string{"machine-type", "zone"} {
		text, err := fetch(ctx, http.MethodGet, service+"/computeMetadata/v1/instance/"+what, "Metadata-Flavor", "Google")
		if err != nil {
			return nil, err
		}
		says = append(says, path.Base(string(text)))
	}
	return says, nil
}

// fetch asks a metadata service, never through a proxy.
func fetch(ctx context.Context, method, url, header, value string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set(header, value)
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("no redirect is followed") }}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, response.Status)
	}
	return io.ReadAll(io.LimitReader(response.Body, maxMetadata))
}
