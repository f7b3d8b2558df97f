package base

import (
	"fmt"
	"strings"
)

// TokenFileEnv names the token's file where --token-file does not.
const TokenFileEnv = "HOPBENCH_TOKEN_FILE"

// MaxSecretBytes bounds the file of a token or of a password.
const MaxSecretBytes = 64 << 10

// ReadToken reads the shared secret, without the line's end; no file, no token.
func ReadToken(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := ReadBounded(file, MaxSecretBytes)
	if err != nil {
		return "", Usage(fmt.Errorf("read the token: %w", Missing(file, err, "")))
	}
	token := strings.TrimRight(string(text), "\r\n")
	if token == "" {
		return "", Usage(fmt.Errorf("the token file %s is empty; make one with: head -c 24 /dev/urandom | base64 > %s", file, file))
	}
	return token, nil
}
