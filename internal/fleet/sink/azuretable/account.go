package azuretable

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

// account is a client of the storage account that a connection string names.
func account(connection string) (*aztables.ServiceClient, error) {
	options := &aztables.ClientOptions{ClientOptions: policy.ClientOptions{PerRetryPolicies: []policy.Policy{answers{}}}}
	parts := split(connection)
	if at := signed(settings(parts)); at != "" {
		return aztables.NewServiceClientWithNoCredential(at, options)
	}
	return aztables.NewServiceClientFromConnectionString(strings.Join(parts, ";"), options)
}

// signed is where an account is that is reached with a shared access signature, with that; empty
// for one with a key. The library takes a signature only with the name of an account, and sends
// it to that account of Azure's public cloud, whatever endpoint is written (aztables 1.4.1).
func signed(is map[string]string) string {
	endpoint, _, _ := strings.Cut(is["TableEndpoint"], "?") // a signature may follow
	if name := is["AccountName"]; endpoint == "" && name != "" {
		endpoint = fmt.Sprintf("%s://%s.table.%s", cmp.Or(is["DefaultEndpointsProtocol"], "https"), name, cmp.Or(is["EndpointSuffix"], "core.windows.net"))
	}
	signature := strings.TrimPrefix(is["SharedAccessSignature"], "?")
	if is["AccountKey"] != "" || endpoint == "" || signature == "" {
		return ""
	}
	return strings.TrimSuffix(endpoint, "/") + "/?" + signature
}

// place is the part of a connection string that says where the account is.
func place(connection string) string {
	is := settings(split(connection))
	endpoint, _, _ := strings.Cut(is["TableEndpoint"], "?") // a signature may follow
	return strings.TrimSpace(is["AccountName"] + " " + endpoint)
}

// split takes a connection string apart.
func split(connection string) (parts []string) {
	for part := range strings.SplitSeq(connection, ";") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// settings are the parts of a connection string, by their names.
func settings(parts []string) map[string]string {
	is := map[string]string{}
	for _, part := range parts {
		name, value, _ := strings.Cut(part, "=")
		is[name] = value
	}
	return is
}
