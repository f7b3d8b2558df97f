package azuretable

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

// answers looks into what the service answers to a transaction: one that is not done is
// accepted (202), and what is within says so. The library would neither try it again nor say
// why, and panics where there is nothing within (aztables 1.4.1).
type answers struct{}

// Do has a refusal within an answer be the answer.
func (answers) Do(r *policy.Request) (*http.Response, error) {
	answer, err := r.Next()
	if err != nil || answer.StatusCode != http.StatusAccepted || !strings.HasSuffix(r.Raw().URL.Path, "/$batch") {
		return answer, err
	}
	text, err := runtime.Payload(answer)
	if err != nil {
		return nil, err
	}
	status, code := within(text)
	switch {
	case status == 0:
		return nil, noAnswerError{}
	case status >= http.StatusBadRequest:
		answer.StatusCode, answer.Status = status, http.StatusText(status)
		answer.Header.Set("x-ms-error-code", code) // where the library looks for it
	}
	return answer, nil
}

// noAnswerError says that what answers is something else, which asking again does not change.
type noAnswerError struct{}

func (noAnswerError) Error() string {
	return "what answered says nothing of the transaction; is that the service, or something on the way?"
}

// NonRetriable is asked for by the library.
func (noAnswerError) NonRetriable() {}

// within is the first refusal in an answer, or its last confirmation; 0 for what is none.
func within(text []byte) (status int, code string) {
	all := parts(text)
	outer, err := all.NextPart()
	if err != nil {
		return 0, ""
	}
	text, _ = io.ReadAll(outer) // what is cut off has fewer parts
	all = parts(text)
	for {
		part, err := all.NextPart()
		if err != nil {
			return status, ""
		}
		one, err := http.ReadResponse(bufio.NewReader(part), nil)
		if err != nil {
			return 0, ""
		}
		if status = one.StatusCode; status >= http.StatusBadRequest {
			var why struct {
				Error struct {
					Code string `json:"code"`
				} `json:"odata.error"`
			}
			_ = json.NewDecoder(one.Body).Decode(&why) // without it there is the status
			return status, why.Error.Code
		}
	}
}

// parts are those of a text whose first line is the boundary between them.
func parts(text []byte) *multipart.Reader {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	return multipart.NewReader(bytes.NewReader(text), strings.TrimPrefix(strings.TrimSuffix(string(line), "\r"), "--"))
}
