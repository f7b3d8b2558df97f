package probe

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/hopbench/hopbench/internal/protocol"
)

// HTTPServer is what a server says of itself in its answers over HTTP.
const HTTPServer = "hopbench"

const (
	// httpFirst is the first byte of a GET. No iperf3 client from 3.2 on begins with it.
	httpFirst = 'G'
	// maxHTTPRequest bounds a request, headers included.
	maxHTTPRequest = 4 << 10
)

// answerHTTP answers a GET, whose first byte was read, with nothing: that it was answered
// says that nothing on the path ended it.
func (s *Server) answerHTTP(c *connection, first byte) error {
	if err := c.SetDeadline(time.Now().Add(httpTime)); err != nil {
		return err
	}
	request := io.LimitReader(io.MultiReader(bytes.NewReader([]byte{first}), c), maxHTTPRequest)
	r, err := http.ReadRequest(bufio.NewReader(request))
	if err != nil {
		return fmt.Errorf("%w: HTTP request: %w", protocol.ErrMalformed, err)
	}
	if r.Method != http.MethodGet {
		return fmt.Errorf("%w: HTTP method %.20q", protocol.ErrMalformed, r.Method)
	}
	if _, err := io.WriteString(c, "HTTP/1.1 204 No Content\r\nServer: "+HTTPServer+"\r\nConnection: close\r\n\r\n"); err != nil {
		return err
	}
	if err := c.CloseWrite(); err != nil {
		return err
	}
	// To close with something unread would reset the connection.
	_, err = io.Copy(io.Discard, io.LimitReader(c, maxHTTPRequest))
	return err
}

// httpTime bounds all of it.
const httpTime = 5 * time.Second
