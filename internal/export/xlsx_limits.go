package export

import (
	"fmt"

	"github.com/xuri/excelize/v2"
)

// A spreadsheet holds no more than this. What is larger is a matter for Parquet.
const (
	mostSheetRows = 1<<20 - 1 // below its heading; the format's own bound
	mostRows      = 2 << 20   // of all sheets, so that memory is bounded
	mostClients   = 1000
)

// remedy is what to do with a run that is too large for a spreadsheet.
const remedy = "write --format parquet, or fewer trials with --trial"

// fits says of a sheet that is larger than a spreadsheet's what to do instead.
func fits(rows, columns int, instead string) error {
	if rows > mostSheetRows || columns > excelize.MaxColumns {
		return fmt.Errorf("it would have %d rows and %d columns, and a spreadsheet takes %d and %d; %s", rows, columns, mostSheetRows, excelize.MaxColumns, instead)
	}
	return nil
}
