package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/go-kcl/kcl/internal/emu/wire"
)

// trap is what befalls one write of the migration, and who makes it.
type trap struct {
	at  string // the status to be stored, or itemMove
	nth int    // of its kind; 0 means the first
	how trick
}

type trick string

const (
	killBefore trick = "killed before"          // it is not carried out
	killAfter  trick = "killed after"           // it is, and nobody hears of it
	ghost      trick = "landing after death"    // at once when another has the lock
	loseAnswer trick = "answer lost"            // of every attempt
	muteAnswer trick = "answer withheld"        // until the caller gives up
	cutOff     trick = "cut off"                // not carried out, and the worker lives
	comeLate   trick = "landing late"           // after the caller has given up
	meddle     trick = "item changed meanwhile" // of a move
	killOther  trick = "another killed after"   // who owns leases and does not lead
)

var errAnswer = errors.New("no answer")

// touch is an item that a call names.
type touch struct{ table, key, how string }

// request is a call as it leaves a worker.
type request struct {
	by      *hand
	token   string // of a transaction
	touches []touch
	status  string // that it stores in the migration's item, of an update with that it finds
}

type requestKey struct{}

// quill is where a worker's calls leave it.
type quill struct {
	h    *hand
	next aws.HTTPClient
}

func (q quill) Do(r *http.Request) (*http.Response, error) {
	if q.h.dead.Load() {
		return nil, errDead
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	out := r.WithContext(context.WithValue(r.Context(), requestKey{}, parseRequest(q.h, operation, body)))
	out.Body = io.NopCloser(bytes.NewReader(body))
	resp, err := q.next.Do(out)
	if q.h.dead.Load() {
		return nil, errDead
	}
	return resp, err
}

// action is one write, alone or of a transaction.
type action struct {
	TableName                            string
	Key, Item, ExpressionAttributeValues map[string]struct{ S string }
	ExpressionAttributeNames             map[string]string
}

func parseRequest(h *hand, operation string, body []byte) (r request) {
	r.by = h
	var in struct {
		action
		ClientRequestToken string
		TransactItems      []map[string]action
	}
	if json.Unmarshal(body, &in) != nil { // no call about items
		return r
	}
	r.token = in.ClientRequestToken
	note := func(how string, a action) {
		name := keyName[a.TableName]
		key := a.Key[name].S + a.Item[name].S
		if key == "" {
			return
		}
		r.touches = append(r.touches, touch{a.TableName, key, how})
		if a.TableName != stateTable || key != stateKey {
			return
		}
		switch how {
		case "Put":
			r.status = a.Item["tm"].S
		case "Delete":
			r.status = noStatus
		case "Update": // once as it was, once as it is to be
			for n, attribute := range a.ExpressionAttributeNames {
				if attribute == "tm" {
					r.status += a.ExpressionAttributeValues[":v"+strings.TrimPrefix(n, "#n")].S + " "
				}
			}
		}
	}
	switch operation {
	case "PutItem", "UpdateItem", "DeleteItem", "GetItem":
		note(strings.TrimSuffix(operation, "Item"), in.action)
	case "TransactWriteItems":
		for _, item := range in.TransactItems {
			for how, a := range item {
				note(how, a)
			}
		}
	}
	return r
}

func (r request) writes() bool {
	return slices.ContainsFunc(r.touches, func(t touch) bool { return t.how != "Get" && t.how != "ConditionCheck" })
}

// kind is which write of the migration a call is: the status that it stores, a
// move, or "". The caller holds mu.
func (c *chronicle) kind(r request) string {
	if r.status != "" {
		now := c.status()
		for s := range strings.FieldsSeq(r.status) {
			if s != now {
				return s
			}
		}
		return ""
	}
	if r.moves() {
		return itemMove
	}
	return ""
}

// moves reports whether a call moves the coordinator's items.
func (r request) moves() bool {
	return r.token != "" && r.status == "" && slices.ContainsFunc(r.touches, func(t touch) bool { return t.table == stateTable && t.how == "Delete" })
}

// status is what is stored. The caller holds mu.
func (c *chronicle) status() string {
	if it := c.items[stateTable][stateKey]; it != nil {
		return attribute(it, "tm")
	}
	return noStatus
}

// stored is the status, and when it was entered.
func (c *chronicle) stored() (status string, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status(), changedAt(c.items[stateTable][stateKey])
}

func changedAt(it row) time.Time { return time.UnixMilli(int64(whole(it, "mts"))) }

// springs returns what befalls a call.
func (c *chronicle) springs(r request) trick {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.token == "" {
		return ""
	}
	if c.lost[r.token] {
		return cutOff
	}
	kind := c.kind(r)
	if kind == "" || c.tokens[r.token] {
		return ""
	}
	c.tokens[r.token] = true
	c.nth[kind]++
	c.counts["writes: "+strings.TrimPrefix(kind, statusPrefix)]++
	for i, t := range c.traps {
		if t.at == kind && max(t.nth, 1) <= c.nth[kind] {
			c.traps = slices.Delete(c.traps, i, i+1)
			c.tell("TRAP: %s's write of %s: %s", r.by.id, kind, t.how)
			c.counts["traps: "+string(t.how)]++
			switch t.how {
			case loseAnswer, muteAnswer, cutOff, comeLate:
				c.lost[r.token] = true
			case meddle:
				c.meddles(r)
			}
			return t.how
		}
	}
	return ""
}

// meddles changes an item that is about to be moved. The caller holds mu.
func (c *chronicle) meddles(r request) {
	for _, t := range r.touches {
		it := maps.Clone(c.items[stateTable][t.key])
		if t.how != "Delete" || attribute(it, "entityType") != "STREAM" {
			continue
		}
		it["streamId"] = &types.AttributeValueMemberS{Value: "changed-" + t.key}
		if _, err := c.eyes.PutItem(context.Background(), &dynamodb.PutItemInput{TableName: aws.String(stateTable), Item: it}); err != nil {
			c.breaks(nothingLost, "cannot change %s: %v", t.key, err)
		}
		c.items[stateTable][t.key], c.kept[t.key], c.keptAt[t.key] = it, content(stateTable, it), time.Now()
		return
	}
}

// watch carries a call out and looks at what it has written.
func (c *chronicle) watch(ctx context.Context, i wire.Info, run func() wire.Answer) (wire.Answer, error) {
	r, ok := ctx.Value(requestKey{}).(request)
	if !ok || i.Service != dynamoDB || len(r.touches) == 0 {
		return run(), nil
	}
	if !r.writes() {
		ans := run()
		if k := r.touches[0].key; k == leaderKey || k == stateKey {
			c.look()
		}
		return ans, nil
	}
	carry := func() wire.Answer {
		c.mu.Lock()
		defer c.mu.Unlock()
		ans := run()
		if ans.Err == nil {
			c.wrote(r)
		}
		return ans
	}
	switch c.springs(r) {
	case killBefore:
		c.kill(r.by)
		return wire.Answer{}, errDead
	case killAfter:
		carry()
		c.kill(r.by)
		return wire.Answer{}, errDead
	case killOther:
		ans := carry()
		if h := c.another(r.by); h != nil {
			c.kill(h)
		}
		return ans, nil
	case ghost:
		c.mu.Lock()
		c.ghosts = append(c.ghosts, func() {
			ans := carry()
			c.tell("the write of %s, who is dead, lands: %v", r.by.id, ans.Err)
		})
		c.mu.Unlock()
		c.kill(r.by)
		return wire.Answer{}, errDead
	case loseAnswer:
		carry()
		return wire.Answer{}, errAnswer
	case muteAnswer:
		carry()
		for ctx.Err() == nil { // looked at all the time
			c.look()
			select {
			case <-ctx.Done():
			case <-time.After(250 * time.Millisecond):
			}
		}
		return wire.Answer{}, ctx.Err()
	case comeLate:
		c.loose.Go(func() {
			time.Sleep(15 * time.Second)
			c.tell("the late write of %s lands: %v", r.by.id, carry().Err)
		})
		<-ctx.Done()
		return wire.Answer{}, ctx.Err()
	case cutOff:
		return wire.Answer{}, errAnswer
	}
	ans := carry()
	if slices.ContainsFunc(r.touches, func(t touch) bool { return t.key == leaderKey || t.key == stateKey }) {
		c.look()
	}
	return ans, nil
}
