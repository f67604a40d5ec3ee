package conformance

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var writePage = flag.Bool("write-differences", false, "write DIFFERENCES.md anew")

const pageFile = "DIFFERENCES.md"

// page is the list of differences for readers, in Markdown.
func page(list []difference) string {
	var b strings.Builder
	b.WriteString("# Where other emulators differ from the service\n\n" +
		"`kcltest` passes every check of this suite. Here is what the others do otherwise, in how many checks it shows,\n" +
		"and how we know what the service does. `make conformance` holds them against this list.\n\n" +
		"| source | what it is |\n|---|---|\n")
	for _, s := range sources {
		fmt.Fprintf(&b, "| %s | %s |\n", s.name, s.is)
	}
	target := ""
	for _, d := range list {
		if d.target != target {
			target = d.target
			fmt.Fprintf(&b, "\n## %s\n\n| checks | it | the service | known from |\n|--:|---|---|---|\n", target)
		}
		times := fmt.Sprint(d.times)
		if d.sometimes {
			times = "some"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", times, cell(d.does), cell(d.real), d.known)
	}
	b.WriteString("\nWritten by `go test ./internal/conformance -run TestPage -write-differences`.\n")
	return b.String()
}

// cell keeps Markdown from reading a text.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "*", `\*`, "_", `\_`, "<", "&lt;").Replace(text)
}

// Every difference tells all there is to tell, and the page tells of every one.
func TestPage(t *testing.T) {
	for _, d := range differences {
		assert.NotEmpty(t, d.does, d.checks)
		assert.NotEmpty(t, d.real, d.does)
		assert.Equal(t, d.sometimes, d.times == 0, d.does)
		for name := range strings.SplitSeq(d.known, ", ") {
			assert.True(t, slices.ContainsFunc(sources, func(s struct{ name, is string }) bool { return s.name == name }), "%s: no source is called %q", d.does, name)
		}
	}
	want := page(differences)
	if *writePage {
		require.NoError(t, os.WriteFile(pageFile, []byte(want), 0o644))
	}
	got, err := os.ReadFile(pageFile)
	require.NoError(t, err)
	assert.Equal(t, want, string(got), "write it anew: go test ./internal/conformance -run TestPage -write-differences")
}
