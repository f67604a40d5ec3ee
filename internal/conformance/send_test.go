package conformance

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// answer is what came back over HTTP.
type answer struct {
	status int
	header http.Header
	body   string
}

// prefixes of X-Amz-Target and content types of the two services.
var protocols = map[string]struct{ target, contentType string }{
	"dynamodb": {"DynamoDB_20120810.", "application/x-amz-json-1.0"},
	"kinesis":  {"Kinesis_20131202.", "application/x-amz-json-1.1"},
}

// send makes a signed call with a body as it is, for what the SDK cannot say or
// would hide. The service is the case's.
func (t *T) send(operation, body string) answer {
	service, _, _ := strings.Cut(t.path, "/")
	r, err := http.NewRequestWithContext(t.ctx, http.MethodPost, *t.config.BaseEndpoint+"/", strings.NewReader(body))
	t.OK(err)
	r.Header.Set("X-Amz-Target", protocols[service].target+operation)
	r.Header.Set("Content-Type", protocols[service].contentType)
	who, err := t.config.Credentials.Retrieve(t.ctx)
	t.OK(err)
	hash := sha256.Sum256([]byte(body))
	t.OK(v4.NewSigner().SignHTTP(t.ctx, who, r, hex.EncodeToString(hash[:]), service, t.config.Region, time.Now()))
	resp, err := t.config.HTTPClient.Do(r)
	t.OK(err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	t.OK(err)
	return answer{status: resp.StatusCode, header: resp.Header, body: string(b)}
}

// code is the code of an error, "" for success, without its name space.
func (a answer) code() string {
	if a.status == http.StatusOK {
		return ""
	}
	code, _ := a.get("__type").(string)
	if _, bare, ok := strings.Cut(code, "#"); ok {
		return bare
	}
	return code
}

// get is what the body holds under a path of names, such as "Item.leaseKey.S";
// nil if nothing.
func (a answer) get(path string) any {
	var v any
	if json.Unmarshal([]byte(a.body), &v) != nil {
		return nil
	}
	for name := range strings.SplitSeq(path, ".") {
		object, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = object[name]
	}
	return v
}

// Accepted ends the check unless the call succeeded.
func (t *T) Accepted(a answer) {
	if a.status != http.StatusOK {
		t.Fatalf("want success, got %d %s", a.status, a.body)
	}
}

// RefusedRaw notes a fault unless the call was refused with this code.
func (t *T) RefusedRaw(code string, a answer) {
	if a.code() != code || a.status != http.StatusBadRequest {
		t.Errorf("want 400 %s, got %d %s", code, a.status, a.body)
	}
}
