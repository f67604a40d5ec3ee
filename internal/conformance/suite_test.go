package conformance

import (
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
)

// suite is every case. A name starts with its service.
var suite = slices.Concat(
	tableCases, indexCases, itemCases, numberCases, conditionCases, leaseCases, updateCases, readCases, batchCases, transactionCases,
	streamCases, shardCases, reshardCases, putCases, iteratorCases, recordCases,
	wireCases,
)

// TestKCLTest runs the suite against kcltest in memory, where it has to pass as
// it is.
func TestKCLTest(t *testing.T) {
	known := make(map[string]bool) // every check, and what it is a part of
	for _, c := range suite {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, f := range inMemory.ask(t, c) {
					assert.False(t, known[f.check], "two checks are called %s", f.check)
					for name := f.check; strings.Contains(name, "/"); name = path.Dir(name) {
						known[name] = true
					}
					for _, fault := range f.faults {
						t.Errorf("%s: %s", f.check, fault)
					}
				}
			})
		})
	}
	t.Run("differences are of checks that there are", func(t *testing.T) {
		for _, d := range differences {
			for _, pattern := range d.checks {
				found := false
				for check := range known {
					found = found || covers(pattern, check)
				}
				assert.True(t, found, "%s: no check is called %q", d.target, pattern)
			}
		}
	})
}
