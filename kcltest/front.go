package kcltest

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-kcl/kcl/internal/emu/wire"
)

const (
	serviceDynamoDB = "dynamodb"
	serviceKinesis  = "kinesis"

	targetDynamoDB = "DynamoDB_20120810."
	targetKinesis  = "Kinesis_20131202."

	// maxBody is the largest body that DynamoDB accepts; a PutRecords call of
	// 10 MiB of data stays below it in either encoding.
	maxBody = 16 << 20
)

var errBroken = errors.New("kcltest: connection broken")

// serve answers one request. An error means that the connection breaks.
func (a *AWS) serve(ctx context.Context, r *http.Request, body []byte, client string) (wire.Answer, error) {
	call, refusal := a.parse(r, body, client)
	id := a.nextID(call.Client)
	if refusal != nil {
		return a.seal(call, *refusal, id), nil
	}
	start := time.Now()
	service := wire.Service(a.dynamodb)
	if call.Service == serviceKinesis {
		service = a.kinesis
	}
	p := service.Prepare(call)
	info := wire.Info{Caller: call.Caller, Service: call.Service, Operation: call.Operation, Resources: p.Resources, Index: p.Index}

	var broken error // by the interceptor
	run := p.Run
	if i := a.interceptor(); i != nil {
		run = func() (ans wire.Answer) {
			ans, broken = i(ctx, info, p.Run)
			return ans
		}
	}
	var (
		ans wire.Answer
		err error
	)
	if hit := a.hit(info); hit != nil {
		ans, err = hit.apply(ctx, info, call.Codec, run)
	} else {
		ans = run()
	}
	if err == nil {
		err = broken
	}
	code := ""
	if err == nil && ans.Err != nil {
		code = ans.Err.Code()
	}
	if err != nil {
		ans.Status = 0
	}
	a.count(info, code, ans.Status)
	if a.opts.OnCall != nil {
		a.opts.OnCall(Call{
			At: start, Took: time.Since(start), Client: call.Client, Service: call.Service,
			Operation: call.Operation, Resources: p.Resources, Status: ans.Status, Code: code,
		})
	}
	if err != nil {
		return wire.Answer{}, errors.Join(errBroken, err)
	}
	return a.seal(call, ans, id), nil
}

// parse finds out who calls what. If it cannot, it returns the answer to give.
func (a *AWS) parse(r *http.Request, body []byte, client string) (*wire.Call, *wire.Answer) {
	c := &wire.Call{Body: body, Header: r.Header, Codec: wire.JSON10}
	c.Caller, c.Service = a.caller(r.Header, client)
	target := r.Header.Get("X-Amz-Target")
	if op, ok := strings.CutPrefix(target, targetDynamoDB); ok {
		c.Service, c.Operation = serviceDynamoDB, op
	} else if op, ok := strings.CutPrefix(target, targetKinesis); ok {
		c.Service, c.Operation = serviceKinesis, op
	}
	if c.Service == serviceKinesis {
		c.Codec = wire.JSON11
	}

	if r.Method != http.MethodPost {
		return c, &wire.Answer{Status: http.StatusForbidden, ContentType: "text/xml", Body: []byte(
			"<AccessDeniedException>\n  <Message>Unable to determine service/operation name to be authorized</Message>\n</AccessDeniedException>\n")}
	}
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	switch media = strings.TrimSpace(media); {
	case c.Service == serviceKinesis && media == wire.CBOR.ContentType():
		c.Codec = wire.CBOR
	case media == c.Codec.ContentType(), media == "application/json":
	default:
		return c, &wire.Answer{Status: http.StatusNotFound, ContentType: "text/xml", Body: []byte("<UnknownOperationException/>\n")}
	}
	if len(body) > maxBody {
		return c, &wire.Answer{Status: http.StatusRequestEntityTooLarge, ContentType: c.Codec.ContentType()}
	}
	refuse := func(code, message string) (*wire.Call, *wire.Answer) {
		if c.Service == serviceDynamoDB {
			code = "com.amazon.coral.service#" + code
		}
		ans := (&wire.Error{Status: http.StatusBadRequest, Type: code, Message: message}).Answer(c.Codec)
		return c, &ans
	}
	if c.Operation == "" {
		a.log.Warn("not a call of an emulated service", "target", target)
		return refuse("UnknownOperationException", "")
	}
	if c.Client == "" {
		return refuse("MissingAuthenticationTokenException", "Missing Authentication Token")
	}
	return c, nil
}

// caller reads the credential of the signature. An in-memory client's name
// stands for its access key id, whatever it signs with.
func (a *AWS) caller(h http.Header, client string) (c wire.Caller, service string) {
	c = wire.Caller{Client: client, Region: a.opts.Region}
	if _, cred, ok := strings.Cut(h.Get("Authorization"), "Credential="); ok {
		cred, _, _ = strings.Cut(cred, ",")
		if f := strings.Split(strings.TrimSpace(cred), "/"); len(f) == 5 {
			if c.Client == "" {
				c.Client = f[0]
			}
			c.Region, service = f[2], f[3]
		}
	}
	c.Account = a.account(c.Client)
	return c, service
}

// seal adds what every answer carries.
func (a *AWS) seal(c *wire.Call, ans wire.Answer, id requestID) wire.Answer {
	h := ans.Header.Clone()
	if h == nil {
		h = make(http.Header, 3)
	}
	set := func(key, value string) { h[key] = []string{value} } // keys are canonical
	if ans.ContentType != "" {
		set("Content-Type", ans.ContentType)
	}
	if c.Service == serviceDynamoDB {
		set("X-Amzn-Requestid", id.dynamodb())
		set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE(ans.Body)), 10))
	} else {
		set("X-Amzn-Requestid", id.uuid())
		set("X-Amz-Id-2", id.extended())
	}
	ans.Header = h
	return ans
}

// requestID is the source of what identifies one answer.
type requestID struct{ rng *rand.Rand }

// nextID derives a client's n-th id from the seed, so that a run repeats its
// ids whatever the order in which clients call.
func (a *AWS) nextID(client string) requestID {
	a.mu.Lock()
	n := a.clients[client]
	a.clients[client] = n + 1
	a.mu.Unlock()
	h := fnv.New64a()
	h.Write([]byte(client))
	return requestID{rand.New(rand.NewPCG(a.opts.Seed^h.Sum64(), n))}
}

func (id requestID) dynamodb() string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	var b [52]byte
	for i := range b {
		b[i] = digits[id.rng.IntN(len(digits))]
	}
	return string(b[:])
}

func (id requestID) uuid() string {
	b := id.bytes(16)
	s := hex.EncodeToString(b)
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

func (id requestID) extended() string { return base64.StdEncoding.EncodeToString(id.bytes(48)) }

func (id requestID) bytes(n int) []byte {
	b := make([]byte, 0, n+7)
	for len(b) < n {
		b = binary.LittleEndian.AppendUint64(b, id.rng.Uint64())
	}
	return b[:n]
}
