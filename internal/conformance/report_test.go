package conformance

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// report is what a run against a target came to.
type report struct {
	target        string
	passed, known int
	// unexpected are faults that are not listed, and listed differences that are
	// not there.
	unexpected []string
	// seen are the listed differences, with the times they were met.
	seen []difference
}

// judge holds what a target's checks found against the list of differences.
//
//	fault  covered by a difference    comes to
//	no     -                          passed
//	yes    yes, and shows as it says  known
//	yes    yes, but shows otherwise   unexpected
//	yes    no                         unexpected
//
// A difference that is not met by each of its patterns, and as often as it says,
// is unexpected too, unless it is one that comes and goes: the target has
// changed, or the suite.
func judge(target string, findings []finding, list []difference) report {
	r := report{target: target}
	met := make([]map[string]int, len(list)) // times, by pattern
	for i := range list {
		met[i] = map[string]int{}
	}
	for _, f := range findings {
		if len(f.faults) == 0 {
			r.passed++
			continue
		}
		if i, pattern := covering(target, f, list); pattern != "" {
			r.known++
			met[i][pattern]++
			continue
		}
		for _, fault := range f.faults {
			r.unexpected = append(r.unexpected, f.check+": "+oneLine(fault))
		}
	}
	for i, d := range list {
		if d.target != target {
			continue
		}
		seen := d
		seen.times = 0
		for _, pattern := range d.checks {
			if met[i][pattern] == 0 && !d.sometimes {
				r.unexpected = append(r.unexpected, fmt.Sprintf("%s: listed, but not so: %s", pattern, d.does))
			}
			seen.times += met[i][pattern]
		}
		if seen.times != d.times && !d.sometimes {
			r.unexpected = append(r.unexpected, fmt.Sprintf("%d checks, not %d: %s", seen.times, d.times, d.does))
		}
		r.seen = append(r.seen, seen)
	}
	slices.Sort(r.unexpected)
	return r
}

// covering finds the difference that says what a check found, and the pattern by
// which it covers the check; "" if there is none.
func covering(target string, f finding, list []difference) (int, string) {
	for i, d := range list {
		if d.target != target || !regexp.MustCompile(d.shows).MatchString(strings.Join(f.faults, "\n")) {
			continue
		}
		for _, pattern := range d.checks {
			if covers(pattern, f.check) {
				return i, pattern
			}
		}
	}
	return 0, ""
}

// covers reports whether a check has the name, or one that begins as the pattern
// does up to its final *.
func covers(pattern, check string) bool {
	start, open := strings.CutSuffix(pattern, "*")
	return pattern == check || open && strings.HasPrefix(check, start)
}

// oneLine is the beginning of a text, without line breaks.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return text[:min(len(text), 300)]
}

// String lists the known differences, and what is unexpected.
func (r report) String() string {
	var b strings.Builder
	if len(r.seen) > 0 {
		fmt.Fprintf(&b, "\n%s: %d checks differ, in %d ways\n", r.target, r.known, len(r.seen))
	}
	for _, s := range r.seen {
		fmt.Fprintf(&b, "\n  %4d  it       %s\n        service  %s\n        known    %s\n", s.times, s.does, s.real, s.known)
	}
	if len(r.unexpected) > 0 {
		fmt.Fprintf(&b, "\n%s, unexpected:\n  %s\n", r.target, strings.Join(r.unexpected, "\n  "))
	}
	return b.String()
}

func TestJudge(t *testing.T) {
	findings := []finding{
		{check: "a/passes"},
		{check: "a/differs", faults: []string{"want 1, got 2"}},
		{check: "a/differs in another way", faults: []string{"want 1, got 3"}},
		{check: "b/differs", faults: []string{"want 1, got 2"}},
		{check: "b/differs too", faults: []string{"want 0, got 0", "want 1, got 2"}},
		{check: "fails", faults: []string{"want 1, got 2", "want 3, got 4"}},
		{check: "no longer differs"},
		{check: "races"},
		{check: "races and is met", faults: []string{"lost"}},
		{check: "races too", faults: []string{"in another way"}},
	}
	list := []difference{
		{target: "another", checks: []string{"fails"}, shows: "got"},
		{target: "it", checks: []string{"a/*", "b/differs", "b/differs t*", "no longer differs", "was not run*"}, times: 4, shows: "got [25]", does: "two", real: "one"},
		{target: "it", checks: []string{"races"}, sometimes: true, shows: "lost"},
		{target: "it", checks: []string{"races and is met", "races too"}, sometimes: true, shows: "lost"},
	}
	seen, met := list[1], list[3]
	seen.times, met.times = 3, 1
	assert.Equal(t, report{target: "it", passed: 3, known: 4, seen: []difference{seen, list[2], met}, unexpected: []string{
		"3 checks, not 4: two",
		"a/differs in another way: want 1, got 3",
		"fails: want 1, got 2",
		"fails: want 3, got 4",
		"no longer differs: listed, but not so: two",
		"races too: in another way",
		"was not run*: listed, but not so: two",
	}}, judge("it", findings, list))
}
