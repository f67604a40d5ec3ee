package kcltest

import (
	"bytes"
	"context"
	"errors"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/uuid"

	"github.com/go-kcl/kcl/internal/emu/wire"
)

// credentials signs as accessKey. The secret is never checked.
func credentials(accessKey string) aws.CredentialsProvider {
	return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: accessKey, SecretAccessKey: "secret", Source: "kcltest"}, nil
	})
}

// memoryClient carries requests to an AWS without a network. It works in the
// caller's goroutine.
type memoryClient struct {
	aws  *AWS
	name string
}

// Do implements aws.HTTPClient.
func (c *memoryClient) Do(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	if err := c.travel(ctx, r.Header.Get("X-Amz-Target"), body); err != nil {
		return nil, err
	}
	ans, err := c.aws.serve(ctx, r, body, c.name)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err // carried out, but the caller has gone
	}
	return &http.Response{
		Status:        http.StatusText(ans.Status),
		StatusCode:    ans.Status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        ans.Header,
		ContentLength: int64(len(ans.Body)),
		Body:          io.NopCloser(bytes.NewReader(ans.Body)),
		Request:       r,
	}, nil
}

// travel waits for the latency of a call. It follows from the client, the call
// and the time at which it is made, not from what other calls there are: those
// made at one instant come in an order that only the Go scheduler knows. Its
// nanoseconds differ, so that no two calls of a bubble arrive at one instant.
func (c *memoryClient) travel(ctx context.Context, target string, body []byte) error {
	mean := c.aws.opts.Latency
	if mean <= 0 {
		return ctx.Err()
	}
	h := fnv.New64a()
	h.Write([]byte(c.name + target))
	sum := h.Sum64() ^ c.aws.opts.Seed
	for i, part := range bytes.Split(body, []byte{'"'}) {
		if i%2 == 0 || len(part) == 36 && uuid.Validate(string(part)) == nil {
			continue // between strings, or random
		}
		h.Reset()
		h.Write(part)
		// In whatever order the SDK wrote a map. Hashes of like texts differ by so
		// little that they would cancel each other out, unless mixed.
		sum += rand.NewPCG(h.Sum64(), 0).Uint64()
	}
	rng := rand.New(rand.NewPCG(sum, uint64(time.Now().UnixNano())))
	return sleep(ctx, mean/2+time.Duration(rng.Int64N(int64(mean)+1)))
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	var b bytes.Buffer
	b.Grow(int(min(max(r.ContentLength, 0), maxBody)) + bytes.MinRead)
	_, err := b.ReadFrom(io.LimitReader(r.Body, maxBody+1))
	return b.Bytes(), errors.Join(err, r.Body.Close())
}

// Handler returns the services as an http.Handler, for a server of the caller's
// own. It tells them apart by the header X-Amz-Target.
func (a *AWS) Handler() http.Handler { return http.HandlerFunc(a.handle) }

// Server returns an HTTP server, not yet listening, that takes HTTP/1.1 and
// HTTP/2 with prior knowledge, both without TLS. The caller sets its address, or
// gives it a listener, and shuts it down.
func (a *AWS) Server() *http.Server {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	return &http.Server{Handler: a.Handler(), Protocols: p, ReadHeaderTimeout: 10 * time.Second}
}

func (a *AWS) handle(w http.ResponseWriter, r *http.Request) {
	body, err := readBody(r)
	if err != nil {
		panic(http.ErrAbortHandler) // the request broke off: there is nothing to answer
	}
	ans, err := a.serve(r.Context(), r, body, "")
	if err != nil {
		a.log.Debug("connection broken on purpose", "err", err)
		panic(http.ErrAbortHandler)
	}
	write(w, ans)
}

func write(w http.ResponseWriter, ans wire.Answer) {
	h := w.Header()
	for k, v := range ans.Header {
		h[k] = v
	}
	w.WriteHeader(ans.Status)
	_, _ = w.Write(ans.Body) // a client that has gone is no matter of ours
}
