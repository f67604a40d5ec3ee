package lease

import (
	"strings"

	"github.com/go-kcl/kcl/internal/testbed"
)

// figures keeps what a peer measured.
type figures struct{ testbed.Figures }

// get returns the last value of "operation name".
func (f *figures) get(figure string) (float64, bool) {
	operation, name, _ := strings.Cut(figure, " ")
	values := f.Values(operation, name)
	if len(values) == 0 {
		return 0, false
	}
	return values[len(values)-1], true
}
