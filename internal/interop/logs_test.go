package interop

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// harmless are the warnings and errors that a healthy worker logs, by side, with
// the reason for which each is let pass.
var harmless = map[string][]struct{ pattern, reason string }{
	"java": {
		{`WARN +WorkerMetricsSelector Did not find an operating range metadata provider`, "off AWS there is none"},
		{`WARN +WorkerMetricStats WorkerStats: WorkerMetricStats\(workerId=go-.* -1\.0\]\}`, "a Go worker that drains says so in the form of a metric that fails; Java then gives it nothing"},
		{`WARN +LeaseAssignmentManager Not able to assign all expiredOrUnAssignedLeases`, "no worker has reported yet, or none may take more; that no lease goes without an owner for long is watched"},
		{`WARN +ProcessTask Cannot get the shard for this ProcessTask`, "the shard is younger than the worker's list of shards, which followers renew late; an all-Java fleet says so, too"},
	},
	"go": {
		{`msg="reading the shard failed; it is tried again" .* failures=1 err=".*: GetRecords, .* use of closed network connection"$`,
			"the AWS SDK closes a request's body once it has the answer, and its body then reports io.EOF where io.Copy wants nil " +
				"(smithy-go, safeWriteToReadCloser.WriteTo): a server that answers within microseconds sees net/http drop the connection"},
		{`msg="reading the shard failed; it is tried again" .* reason="throttled by Kinesis" failures=1 `, "a shard serves five reads a second, and while it is handed over two workers read it"},
		{`msg="worker's record is left, leases may still be assigned to it"`, "a lease was on its way to a worker that stops, from one that has stopped and does not hand it over; the record shows that it drains, until it ages"},
		{`msg="worker metric not captured" .*context deadline exceeded"$`, "the harness says how busy a worker is, and was slow to, or the worker was frozen"},
	},
}

var (
	javaComplaint = regexp.MustCompile(`^[0-9:.]+ (WARN|ERROR) `)
	goQuiet       = regexp.MustCompile(`^time=\S+ level=(DEBUG|INFO) `)
	pardoned      = map[string][]*regexp.Regexp{}
)

func init() {
	for side, all := range harmless {
		for _, h := range all {
			pardoned[side] = append(pardoned[side], regexp.MustCompile(h.pattern))
		}
	}
}

// complaints returns the lines of a worker's log that tell of trouble and are not
// harmless: Java's warnings and errors, and whatever in ours is not a line of slog
// below a warning, for a panic or the SDK has other forms.
func complaints(side, log string) (lines []string) {
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(line)
		bad := javaComplaint.MatchString(line)
		if side == "go" {
			bad = line != "" && !goQuiet.MatchString(line)
		}
		if bad && !pardon(side, line) {
			lines = append(lines, line)
		}
	}
	return lines
}

func pardon(side, line string) bool {
	return slices.ContainsFunc(pardoned[side], func(p *regexp.Regexp) bool { return p.MatchString(line) })
}

func TestComplaints(t *testing.T) {
	for name, c := range map[string]struct {
		side, line string
		bad        bool
	}{
		"Java's error":                        {"java", "23:10:22.300 ERROR DynamoDBLeaseSerializer cannot read", true},
		"Java's warning":                      {"java", "23:10:22.300 WARN  ShardConsumer it took long", true},
		"a word":                              {"java", "23:10:21.757 INFO  Scheduler WARN is a word", false},
		"a stack trace":                       {"java", "java.lang.Exception: of it", false},
		"off AWS":                             {"java", "23:10:22.293 WARN  WorkerMetricsSelector Did not find an operating range metadata provider.", false},
		"a Go worker drains":                  {"java", "23:42:04.308 WARN  WorkerMetricStats WorkerStats: WorkerMetricStats(workerId=go-1, metricStats={C=[80.0, -1.0]}, operatingRange={C=[100]})", false},
		"a Java worker's metric fails":        {"java", "23:42:04.308 WARN  WorkerMetricStats WorkerStats: WorkerMetricStats(workerId=java-1, metricStats={C=[80.0, -1.0]}, operatingRange={C=[100]})", true},
		"Go's news":                           {"go", `time=2026-01-01T00:00:00.000Z level=INFO msg="leader seen" worker=go-1 leader=java-1`, false},
		"Go's warning":                        {"go", `time=2026-01-01T00:00:00.000Z level=WARN msg="assignment run failed" worker=go-1 err="boom"`, true},
		"Go's error":                          {"go", `time=2026-01-01T00:00:00.000Z level=ERROR msg="nobody can lead"`, true},
		"a panic":                             {"go", "panic: runtime error: index out of range [1] with length 1", true},
		"a data race":                         {"go", "WARNING: DATA RACE", true},
		"the SDK":                             {"go", "SDK 2026/01/01 00:00:00 WARN Response has no supported checksum.", true},
		"an empty line":                       {"go", "", false},
		"a connection that the client closed": {"go", `time=2026-01-01T00:00:00.000Z level=WARN msg="reading the shard failed; it is tried again" stream=orders shard=shardId-000000000000 reason="calls to Kinesis fail" failures=1 err="operation error Kinesis: GetRecords, https response error StatusCode: 200, RequestID: 4, deserialization failed, read tcp 127.0.0.1:1->127.0.0.1:2: use of closed network connection"`, false},
		"twice in a row":                      {"go", `time=2026-01-01T00:00:00.000Z level=WARN msg="reading the shard failed; it is tried again" stream=orders shard=shardId-000000000000 reason="calls to Kinesis fail" failures=2 err="operation error Kinesis: GetRecords, https response error StatusCode: 200, RequestID: 4, deserialization failed, read tcp 127.0.0.1:1->127.0.0.1:2: use of closed network connection"`, true},
		"of another call":                     {"go", `time=2026-01-01T00:00:00.000Z level=WARN msg="own leases not looked up" err="operation error DynamoDB: Query, https response error StatusCode: 200, RequestID: 4, deserialization failed, read tcp 127.0.0.1:1->127.0.0.1:2: use of closed network connection"`, true},
		"two readers":                         {"go", `time=2026-01-01T00:00:00.000Z level=WARN msg="reading the shard failed; it is tried again" stream=orders shard=shardId-000000000000 reason="throttled by Kinesis" failures=1 err="x"`, false},
		"an expired iterator":                 {"go", `time=2026-01-01T00:00:00.000Z level=WARN msg="reading the shard failed; it is tried again" stream=orders shard=shardId-000000000000 reason="calls to Kinesis fail" failures=1 err="x"`, true},
		"the harness is slow":                 {"go", `time=2026-01-01T00:00:00.000Z level=WARN msg="worker metric not captured" metric=C err="Get \"http://127.0.0.1:1/plain/go-1\": context deadline exceeded"`, false},
		"a lease on its way":                  {"go", `time=2026-01-01T00:00:00.000Z level=WARN msg="worker's record is left, leases may still be assigned to it" worker=go-1`, false},
		"the metric fails":                    {"go", `time=2026-01-01T00:00:00.000Z level=WARN msg="worker metric not captured" metric=C err="bad"`, true},
	} {
		var want []string
		if c.bad {
			want = []string{c.line}
		}
		assert.Equal(t, want, complaints(c.side, c.line+"\n"), name)
	}
	assert.Len(t, complaints("go", "panic: a\n\ngoroutine 1 [running]:\n"), 2, "every line")
}
