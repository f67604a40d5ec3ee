//go:build conformance

package conformance

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/kcltest"
)

// startTimeout bounds a server's start, up to its first connection.
const startTimeout = time.Minute

// TestEmulators asks kcltest over HTTP and the emulators installed by the
// Makefile, and tells what differs. Only what is not listed, or listed and not
// so, fails.
func TestEmulators(t *testing.T) {
	targets := []target{overHTTP, moto(t), dynalite(t), kinesisLocal(t)}
	reports := make([]report, len(targets))
	rows := make([]string, len(targets))
	t.Run("targets", func(t *testing.T) { // ends when all have been asked
		for n, g := range targets {
			t.Run(g.name, func(t *testing.T) {
				t.Parallel()
				start := time.Now()
				var findings []finding
				cases := 0
				for _, c := range suite {
					if g.can(c) {
						cases++
						findings = append(findings, g.ask(t, c)...)
					}
				}
				r := judge(g.name, findings, differences)
				for _, fault := range r.unexpected {
					t.Error(fault)
				}
				reports[n] = r
				rows[n] = fmt.Sprintf("%s\t%d\t%d\t%d\t%d\t%d\t%s\n", g.name, cases, len(findings), r.passed, r.known, len(r.unexpected), time.Since(start).Round(time.Second))
			})
		}
	})
	for _, r := range reports {
		fmt.Print(r)
	}
	sum := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprint(sum, "\ntarget\tcases\tchecks\tpassed\tknown differences\tunexpected\ttime\n", strings.Join(rows, ""), "\n")
	require.NoError(t, sum.Flush())
}

// overHTTP is kcltest behind a port, fresh for each case.
var overHTTP = target{name: "kcltest over HTTP", kinesis: true, dynamodb: true,
	open: func(t testing.TB, c kase) aws.Config {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := kcltest.New(options(c)).Server()
		served := make(chan struct{})
		go func() { // until the server is closed
			defer close(served)
			_ = s.Serve(l)
		}()
		t.Cleanup(func() {
			_ = s.Close()
			<-served
		})
		return at("http://" + l.Addr().String())
	},
}

// can reports whether a target can be asked about a case at all.
func (g target) can(c kase) bool {
	service, _, _ := strings.Cut(c.name, "/")
	return (g.kinesis && service == "kinesis" || g.dynamodb && service == "dynamodb") && (g.bubble || !c.hours)
}

// at is the configuration of clients of an endpoint.
func at(url string) aws.Config {
	return aws.Config{
		Region:       kcltest.DefaultRegion,
		BaseEndpoint: aws.String(url),
		HTTPClient:   http.DefaultClient,
		Credentials:  credentials.NewStaticCredentialsProvider(account, "secret", ""),
		// A connection that breaks says nothing about the service; a refusal is to
		// be seen.
		Retryer: func() aws.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) {
				o.Retryables = []retry.IsErrorRetryable{retry.RetryableConnectionError{}}
				o.RateLimiter = ratelimit.None
			})
		},
	}
}

// installed is a path below the folder that the Makefile installs to.
func installed(t *testing.T, path ...string) string {
	root := os.Getenv("KCL_CONFORMANCE")
	require.NotEmpty(t, root, "KCL_CONFORMANCE is not set: run make conformance")
	file := filepath.Join(append([]string{root}, path...)...)
	require.FileExists(t, file)
	return file
}

func moto(t *testing.T) target {
	port := freePort(t)
	return serve(t, target{name: "moto", kinesis: true, dynamodb: true}, port,
		exec.Command(installed(t, "moto", "bin", "moto_server"), "-H", "127.0.0.1", "-p", port))
}

func dynalite(t *testing.T) target {
	port := freePort(t)
	return serve(t, target{name: "dynalite", dynamodb: true}, port,
		exec.Command("node", installed(t, "node", "node_modules", "dynalite", "cli.js"), "--host", "127.0.0.1", "--port", port,
			"--createTableMs", "1000", "--updateTableMs", "1000", "--deleteTableMs", "1000"))
}

func kinesisLocal(t *testing.T) target {
	port := freePort(t)
	loopback, err := filepath.Abs(filepath.Join("testdata", "loopback.cjs"))
	require.NoError(t, err)
	main := installed(t, "node", "node_modules", "kinesis-local", "main.js")
	cmd := exec.Command("node", "--require", loopback, main)
	cmd.Dir = filepath.Dir(main) // where it looks for its certificate
	cmd.Env = append(os.Environ(), "KINESIS_MOCK_PLAIN_PORT="+port, "KINESIS_MOCK_TLS_PORT=0", "LOAD_DATA_IF_EXISTS=false",
		// Long enough for a case to meet these states on a busy machine.
		"CREATE_STREAM_DURATION=1500ms", "DELETE_STREAM_DURATION=2s", "SPLIT_SHARD_DURATION=1s", "MERGE_SHARDS_DURATION=1s", "UPDATE_SHARD_COUNT_DURATION=1s", "UPDATE_STREAM_MODE_DURATION=4s",
		"SHARD_LIMIT=100000", "ON_DEMAND_STREAM_COUNT_LIMIT=100", "LOG_LEVEL=ERROR")
	return serve(t, target{name: "kinesis-local", kinesis: true}, port, cmd)
}

// serve starts a server, waits until it takes connections, and ends it with the
// test.
func serve(t *testing.T, g target, port string, cmd *exec.Cmd) target {
	log, err := os.Create(filepath.Join(os.Getenv("KCL_CONFORMANCE"), g.name+".log"))
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start(), "start %s", g.name)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // says only that it was killed
		_ = log.Close()
	})
	for end := time.Now().Add(startTimeout); ; time.Sleep(100 * time.Millisecond) {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = conn.Close()
			break
		}
		if time.Now().After(end) {
			text, _ := os.ReadFile(log.Name())
			require.Fail(t, g.name+" does not start", "%v\n%s", err, text)
		}
	}
	g.open = func(testing.TB, kase) aws.Config { return at("http://127.0.0.1:" + port) }
	return g
}

func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port
}
