package base

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// TokenFileEnv names the token's file where --token-file does not.
const TokenFileEnv = "HOPBENCH_TOKEN_FILE"

// ReadToken reads the shared secret, without the line's end; no file, no token.
func ReadToken(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", Usage(fmt.Errorf("read the token: %w", err))
	}
	token := strings.TrimRight(string(text), "\r\n")
	if token == "" {
		return "", Usage(fmt.Errorf("the token file %s is empty; make one with: head -c 24 /dev/urandom | base64 > %s", file, file))
	}
	return token, nil
}

// ReadBounded reads a file of at most so many bytes.
func ReadBounded(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return text, err
}
