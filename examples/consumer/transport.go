package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
)

var errCut = errors.New("this worker's network is cut")

// wire is one worker's way to AWS. Cutting it is as good as killing the worker:
// nothing it does reaches anybody any more.
type wire struct {
	worker string
	next   aws.HTTPClient
	lists  *listings
	cut    atomic.Bool
}

func (w *wire) Do(r *http.Request) (*http.Response, error) {
	if w.cut.Load() {
		return nil, errCut
	}
	if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".ListShards") {
		if err := w.lists.note(w.worker, r); err != nil {
			return nil, err
		}
	}
	resp, err := w.next.Do(r)
	if err == nil && w.cut.Load() {
		return nil, errCut // the answer is lost
	}
	return resp, err
}

// The causes of a ListShards call, as its request tells them: the first listing
// of an application is filtered by the initial position.
const (
	causeBootstrap = "bootstrap"
	causeAudit     = "audit"
	causeNextPage  = "next page"
)

// listings counts ListShards calls by worker and cause.
type listings struct {
	mu    sync.Mutex
	calls map[string]map[string]int // by worker, by cause
}

func (l *listings) note(worker string, r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var in struct {
		NextToken   string
		ShardFilter *struct{ Type string }
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return err
	}
	cause := causeAudit
	switch {
	case in.NextToken != "":
		cause = causeNextPage
	case in.ShardFilter != nil:
		cause = causeBootstrap
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls == nil {
		l.calls = make(map[string]map[string]int)
	}
	if l.calls[worker] == nil {
		l.calls[worker] = make(map[string]int)
	}
	l.calls[worker][cause]++
	return nil
}

// totals returns how many calls were made, by how many workers.
func (l *listings) totals() (calls, callers int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, byCause := range l.calls {
		callers++
		for _, n := range byCause {
			calls += n
		}
	}
	return calls, callers
}

// byWorker returns a copy of the counts.
func (l *listings) byWorker() map[string]map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[string]map[string]int, len(l.calls))
	for w, byCause := range l.calls {
		out[w] = make(map[string]int, len(byCause))
		for c, n := range byCause {
			out[w][c] = n
		}
	}
	return out
}
