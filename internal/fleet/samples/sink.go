package samples

import "context"

// Sink is another place where blocks are kept, besides the run folder. It is fed with what
// is there already, so that a slow one delays nothing.
type Sink interface {
	// Put keeps blocks by their Key. The same blocks again change nothing, so after an
	// error all of them may be put again.
	Put(ctx context.Context, blocks []Block) error
	// Place is where that is, without any secret: the same for all that put blocks there.
	Place() string
	Close() error
}
