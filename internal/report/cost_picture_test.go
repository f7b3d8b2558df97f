package report_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"testing"

	"github.com/hopbench/hopbench/internal/report/figure"
	"github.com/hopbench/hopbench/internal/report/reporttest"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
)

func pictureText(t testing.TB, r *result.Result) []byte {
	t.Helper()
	var b bytes.Buffer
	testutil.OK(t, figure.Picture(&b, r))
	return b.Bytes()
}

// wellFormed reads an XML document to its end.
func wellFormed(document []byte) error {
	d := xml.NewDecoder(bytes.NewReader(document))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func TestPictureGolden(t *testing.T) {
	got := pictureText(t, reporttest.Run(t, 10))
	if err := wellFormed(got); err != nil {
		t.Errorf("the picture is not well-formed XML: %v", err)
	}
	reporttest.Golden(t, "picture.svg", got)
}
