package interop

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// harmless are the warnings and errors that a healthy Java worker logs, with the
// reason for which each is let pass.
var harmless = []struct{ pattern, reason string }{
	{`WARN +WorkerMetricsSelector Did not find an operating range metadata provider`, "off AWS there is none"},
	{`WARN +WorkerMetricStats WorkerStats: WorkerMetricStats\(workerId=go-.* -1\.0\]\}`, "a Go worker that drains says so in the form of a metric that fails; Java then gives it nothing"},
	{`WARN +LeaseAssignmentManager Not able to assign all expiredOrUnAssignedLeases`, "no worker has reported yet, or none may take more; that no lease goes without an owner for long is watched"},
	{`WARN +ProcessTask Cannot get the shard for this ProcessTask`, "the shard is younger than the worker's list of shards, which followers renew late; an all-Java fleet says so, too"},
}

var (
	complaint = regexp.MustCompile(`^[0-9:.]+ (WARN|ERROR) `)
	pardoned  = func() (all []*regexp.Regexp) {
		for _, h := range harmless {
			all = append(all, regexp.MustCompile(h.pattern))
		}
		return all
	}()
)

// complaints returns the lines of a Java worker's log that are warnings or
// errors and not harmless.
func complaints(log string) (lines []string) {
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(line)
		if complaint.MatchString(line) && !pardon(line) {
			lines = append(lines, line)
		}
	}
	return lines
}

func pardon(line string) bool {
	for _, p := range pardoned {
		if p.MatchString(line) {
			return true
		}
	}
	return false
}

func TestComplaints(t *testing.T) {
	bad := "23:10:22.300 ERROR DynamoDBLeaseSerializer cannot read"
	assert.Equal(t, []string{bad}, complaints(strings.Join([]string{
		"23:10:21.757 INFO  Scheduler WARN is a word",
		"23:10:22.293 WARN  WorkerMetricsSelector Did not find an operating range metadata provider.",
		"23:42:04.308 WARN  WorkerMetricStats WorkerStats: WorkerMetricStats(workerId=go-1, metricStats={C=[80.0, -1.0]}, operatingRange={C=[100]})",
		bad,
		"java.lang.Exception: of it",
	}, "\n")))
}
