package workermetrics

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Doer sends a request and returns the answer, as an http.Client does.
type Doer interface {
	Do(*http.Request) (*http.Response, error)
}

// Host is where metrics look. The zero Host is the machine that the program runs
// on; a test hands in one that it has made up.
type Host struct {
	// Files is the root of the file system, for /proc and /sys. nil means the
	// real one.
	Files fs.FS
	// HTTP reaches the metadata services of ECS and EC2. nil means a client that
	// uses no proxy and keeps no connection. Each request has a deadline.
	HTTP Doer
	// Getenv returns an environment variable. nil means [os.Getenv].
	Getenv func(string) string
	// OS is the operating system. "" means [runtime.GOOS].
	OS string
}

// maxAnswer bounds what is read of a metadata service's answer, in bytes. A
// task's metadata are a few KB a container.
const maxAnswer = 1 << 20

func (h Host) withDefaults() Host {
	if h.Files == nil {
		h.Files = os.DirFS("/")
	}
	if h.HTTP == nil {
		// These services are on the host itself: a proxy cannot reach them.
		h.HTTP = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	}
	if h.Getenv == nil {
		h.Getenv = os.Getenv
	}
	if h.OS == "" {
		h.OS = runtime.GOOS
	}
	return h
}

func (h Host) read(name string) (string, error) {
	b, err := fs.ReadFile(h.Files, name)
	return string(b), err
}

// readCount reads a file that holds one number.
func (h Host) readCount(name string) (uint64, error) {
	text, err := h.read(name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return n, nil
}

func (h Host) exists(name string) bool {
	_, err := fs.Stat(h.Files, name)
	return err == nil
}

// ask sends a request without a body, with one header unless its name is "". Any
// status but 200 is an error.
func (h Host) ask(ctx context.Context, method, url, header, value string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return nil, err
	}
	if header != "" {
		req.Header.Set(header, value)
	}
	resp, err := h.HTTP.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s %s: %s", method, url, resp.Status)
	}
	return io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
}
