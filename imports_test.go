package kcl_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/go-kcl/kcl"

// mayImport says which packages of the module each one may import, tests left
// aside. Arrows point down: who is below knows nothing of who is above, so that
// each can be read, tested and replaced by itself.
var mayImport = map[string][]string{
	"":        {}, // the vocabulary that everybody shares
	"metrics": {},

	"internal/chance": {},
	"internal/wait":   {},
	"internal/entity": {},
	"internal/ddb":    {"", "internal/entity"},

	"lease":                  {"", "metrics", "internal/chance", "internal/ddb", "internal/entity", "internal/wait"},
	"leader":                 {"", "metrics", "internal/ddb", "internal/entity", "internal/wait"},                    // not what is led
	"coordinator":            {"", "internal/chance", "internal/ddb", "internal/entity", "internal/wait"},            // not who leads
	"workermetrics":          {"", "metrics", "internal/chance", "internal/ddb", "internal/entity", "internal/wait"}, // not leases
	"shardsync":              {"", "metrics", "internal/chance", "lease", "internal/wait"},                           // not consumers
	"coordinator/assignment": {"", "metrics", "internal/chance", "internal/ddb", "internal/entity", "internal/wait", "leader", "lease", "workermetrics"},
	"migration/singletable":  {"", "metrics", "internal/chance", "internal/ddb", "internal/entity", "internal/wait", "coordinator", "lease", "workermetrics"},

	"internal/checkpoint": {"", "metrics", "lease"},
	"internal/retrieval":  {"", "metrics", "internal/chance", "internal/wait"},                                                                    // not leases
	"internal/consumer":   {"", "metrics", "internal/chance", "lease", "shardsync", "internal/checkpoint", "internal/retrieval", "internal/wait"}, // not other shards

	// The only place where packages meet.
	"scheduler": {"", "metrics", "lease", "leader", "coordinator", "coordinator/assignment", "workermetrics", "shardsync",
		"migration/singletable", "internal/ddb", "internal/entity", "internal/consumer", "internal/retrieval", "internal/wait"},

	// The emulation knows nothing of the library it serves to test.
	"internal/emu/wire":     {},
	"internal/emu/attr":     {"internal/emu/wire"},
	"internal/emu/expr":     {"internal/emu/attr", "internal/emu/wire"},
	"internal/emu/dynamodb": {"internal/emu/attr", "internal/emu/expr", "internal/emu/wire"},
	"internal/emu/kinesis":  {"internal/emu/wire"},
	"kcltest":               {"internal/emu/dynamodb", "internal/emu/kinesis", "internal/emu/wire"},
	"internal/conformance":  {}, // tests that hold it against other emulators
	// For tests only; they know nobody whom they serve.
	"internal/interchange": {"internal/emu/attr", "internal/emu/expr"},
	"internal/testbed":     {"metrics"},
	// A processor's test bench behaves as the library does, by its own means.
	"kcltest/processortest": {""},

	"internal/sim":          {}, // nothing but tests
	"internal/sim/javalike": {}, // owes nothing to those whom it witnesses

	"internal/interop": {}, // nothing but tests

	// What a user's program may import.
	"examples/consumer": {"", "scheduler", "kcltest"},
	"examples/localaws": {"kcltest"},
}

func TestImports(t *testing.T) {
	imports := make(map[string][]string)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(filepath.Dir(path))
		if pkg == "." {
			pkg = ""
		}
		if imports[pkg] == nil {
			imports[pkg] = []string{}
		}
		for _, i := range f.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			if rest, ok := strings.CutPrefix(name, module); ok {
				imports[pkg] = append(imports[pkg], strings.TrimPrefix(rest, "/"))
			}
		}
		return nil
	})
	require.NoError(t, err)
	for pkg, list := range imports {
		allowed, known := mayImport[pkg]
		if !assert.True(t, known, "package %q has no place in the order of packages yet", pkg) {
			continue
		}
		for _, i := range list {
			assert.True(t, slices.Contains(allowed, i), "%q must not import %q", pkg, i)
		}
	}
}
