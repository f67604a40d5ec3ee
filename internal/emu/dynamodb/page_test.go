package dynamodb

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// answered is a page as a client decodes it.
type answered struct {
	Items            []map[string]map[string]any
	Count            int
	ScannedCount     int
	LastEvaluatedKey json.RawMessage
}

// pages reads to the end: body is the request without its closing brace.
func (c client) pages(t *testing.T, operation, body string, args ...any) []answered {
	t.Helper()
	body = fmt.Sprintf(body, args...)
	var all []answered
	for start := ""; ; {
		var p answered
		require.NoError(t, json.Unmarshal([]byte(c.ok(t, operation, "%s", body+start+"}")), &p))
		all = append(all, p)
		require.Less(t, len(all), 10_000, "%s %s does not end", operation, body)
		if p.LastEvaluatedKey == nil {
			return all
		}
		start = `,"ExclusiveStartKey":` + string(p.LastEvaluatedKey)
	}
}

// keysOf returns the values of a key attribute in the order of the pages.
func keysOf(pages []answered, name string) []string {
	keys := []string{}
	for _, p := range pages {
		for _, item := range p.Items {
			for _, v := range item[name] {
				keys = append(keys, v.(string))
			}
		}
	}
	return keys
}

// aws-dynamodb#18: limit and filter.
func TestLimitCountsBeforeTheFilter(t *testing.T) {
	c := leases(t)
	for i := range 5 {
		c.put(t, "leases", `"leaseKey":{"S":"s%d"},"entityType":{"S":%q}`, i, []string{"LEASE", "LEASE", "LEASE", "LEADER", "WORKER"}[i])
	}
	nothing := c.pages(t, "Scan", `{"TableName":"leases","Limit":2,"FilterExpression":"entityType = :e","ExpressionAttributeValues":{":e":{"S":"NONE"}}`)
	scanned := 0
	for _, p := range nothing {
		assert.Zero(t, p.Count)
		assert.Empty(t, p.Items)
		assert.LessOrEqual(t, p.ScannedCount, 2)
		scanned += p.ScannedCount
	}
	assert.Equal(t, 5, scanned)

	// The worked example: 3 leases and 2 other entities.
	for _, filter := range []string{
		`"FilterExpression":"entityType = :e","ExpressionAttributeValues":{":e":{"S":"LEASE"}}`,
		`"ScanFilter":{"entityType":{"ComparisonOperator":"EQ","AttributeValueList":[{"S":"LEASE"}]}}`,
	} {
		var count int
		var scans []int
		for _, p := range c.pages(t, "Scan", `{"TableName":"leases","Limit":2,%s`, filter) {
			scans = append(scans, p.ScannedCount)
			count += p.Count
			assert.Len(t, p.Items, p.Count)
		}
		assert.Equal(t, []int{2, 2, 1}, scans)
		assert.Equal(t, 3, count)
	}
	c.refused(t, validation, "greater than or equal to 1", "Scan", `{"TableName":"leases","Limit":0}`)
	assert.Len(t, c.pages(t, "Scan", `{"TableName":"leases","Limit":5`), 2, "the limit was reached, so there may be more")
	assert.Len(t, c.pages(t, "Scan", `{"TableName":"leases","Limit":6`), 1)
}

// aws-dynamodb#19
func TestSegmentsMakeUpTheTable(t *testing.T) {
	c := leases(t)
	want := []string{}
	for i := range 40 {
		key := fmt.Sprintf("shardId-%012d", i)
		c.put(t, "leases", `"leaseKey":{"S":%q},"leaseOwner":{"S":"w%d"}`, key, i%7)
		want = append(want, key)
	}
	for _, source := range []string{`"TableName":"leases"`, `"TableName":"leases","IndexName":"owners"`} {
		for _, total := range []int{1, 3, 10, 1000} {
			for _, limit := range []int{0, 1, 7} {
				limited := ""
				if limit > 0 {
					limited = fmt.Sprintf(`,"Limit":%d`, limit)
				}
				var got []string
				filled := 0
				for segment := range total {
					keys := keysOf(c.pages(t, "Scan", `{%s,"Segment":%d,"TotalSegments":%d%s`, source, segment, total, limited), "leaseKey")
					if len(keys) > 0 {
						filled++
					}
					got = append(got, keys...)
				}
				slices.Sort(got)
				assert.Equal(t, want, got, "%s in %d segments, limit %d", source, total, limit)
				assert.Greater(t, filled, min(total, 7)/2, "%s: %d segments are not spread", source, total)
			}
		}
	}
	c.refused(t, validation, "The TotalSegments parameter is required but was not present in the request when Segment parameter is present", "Scan", `{"TableName":"leases","Segment":0}`)
	c.refused(t, validation, "The Segment parameter is required", "Scan", `{"TableName":"leases","TotalSegments":5}`)
	c.refused(t, validation, "The Segment parameter is zero-based and must be less than parameter TotalSegments: Segment: 5 is not less than TotalSegments: 5", "Scan", `{"TableName":"leases","Segment":5,"TotalSegments":5}`)
	c.refused(t, validation, "totalSegments", "Scan", `{"TableName":"leases","Segment":0,"TotalSegments":1000001}`)
}

// aws-dynamodb#20
func TestStartKeys(t *testing.T) {
	c := leases(t)
	for i := range 20 {
		c.put(t, "leases", `"leaseKey":{"S":"s%02d"},"leaseOwner":{"S":"A"}`, i)
	}
	for _, read := range []struct{ operation, body string }{
		{"Scan", `{"TableName":"leases"`},
		{"Scan", `{"TableName":"leases","IndexName":"owners"`},
		{"Query", strings.TrimSuffix(ownerQuery("leases", "owners", "A"), "}")},
		{"Query", `{"ScanIndexForward":false,` + strings.TrimSuffix(ownerQuery("leases", "owners", "A")[1:], "}")},
	} {
		all := keysOf(c.pages(t, read.operation, "%s", read.body), "leaseKey")
		page := c.ok(t, read.operation, "%s", read.body+`,"Limit":8}`)
		start, err := json.Marshal(get(t, page, "LastEvaluatedKey"))
		require.NoError(t, err)
		c.ok(t, "DeleteItem", `{"TableName":"leases","Key":{"leaseKey":{"S":%q}}}`, all[7])
		rest := c.pages(t, read.operation, "%s", read.body+`,"ExclusiveStartKey":`+string(start))
		assert.Equal(t, all[8:], keysOf(rest, "leaseKey"), "%s %s", read.operation, read.body)
		c.put(t, "leases", `"leaseKey":{"S":%q},"leaseOwner":{"S":"A"}`, all[7])
	}

	for _, start := range []string{`{"x":{"S":"a"}}`, `{"leaseKey":{"N":"1"}}`, `{"leaseKey":{"S":"a"},"leaseOwner":{"S":"a"}}`, `{}`} {
		c.refused(t, validation, "The provided starting key is invalid", "Scan", `{"TableName":"leases","ExclusiveStartKey":%s}`, start)
	}
	c.refused(t, validation, "The provided starting key is invalid", "Scan", `{"TableName":"leases","IndexName":"owners","ExclusiveStartKey":{"leaseKey":{"S":"a"}}}`)
	c.refused(t, validation, "The provided starting key is outside query boundaries based on provided conditions", "Query",
		strings.TrimSuffix(ownerQuery("leases", "owners", "A"), "}")+`,"ExclusiveStartKey":{"leaseKey":{"S":"a"},"leaseOwner":{"S":"B"}}}`)
	wrong := 0
	for segment := range 2 {
		a := c.call("Scan", fmt.Sprintf(`{"TableName":"leases","ExclusiveStartKey":{"leaseKey":{"S":"s01"}},"TotalSegments":2,"Segment":%d}`, segment))
		if a.Err != nil {
			wrong++
			assert.Contains(t, a.Err.Message, fmt.Sprintf("Invalid ExclusiveStartKey. Please use ExclusiveStartKey with correct Segment. TotalSegments: 2 Segment: %d", segment))
		}
	}
	assert.Equal(t, 1, wrong)
}

// aws-dynamodb#21
func TestPagesOfBytes(t *testing.T) {
	c := newClient(Config{Timing: atOnce})
	c.ok(t, "CreateTable", `{"TableName":"ttt","BillingMode":"PAY_PER_REQUEST","KeySchema":[{"AttributeName":"h","KeyType":"HASH"},{"AttributeName":"r","KeyType":"RANGE"}],"AttributeDefinitions":[{"AttributeName":"h","AttributeType":"S"},{"AttributeName":"r","AttributeType":"N"}]}`)
	var want []string
	for i := range 20 {
		c.put(t, "ttt", `"h":{"S":"a"},"r":{"N":"%d"},"v":{"S":%q}`, i, strings.Repeat("x", 60<<10))
		want = append(want, fmt.Sprint(i))
	}
	const query = `{"TableName":"ttt","KeyConditionExpression":"h = :h","ExpressionAttributeValues":{":h":{"S":"a"}}`
	for operation, body := range map[string]string{"Query": query, "Scan": `{"TableName":"ttt"`} {
		all := c.pages(t, operation, "%s", body)
		assert.GreaterOrEqual(t, len(all), 2)
		assert.LessOrEqual(t, len(all[0].Items)*60<<10, 1<<20)
		assert.Equal(t, want, keysOf(all, "r"), operation)
		assert.Len(t, keysOf(all, "v"), 20)
		five := c.pages(t, operation, "%s", body+`,"Limit":5`)
		assert.Len(t, five[0].Items, 5)
		assert.Equal(t, want, keysOf(five, "r"))
		// Neither a projection nor counting makes pages larger.
		assert.Len(t, c.pages(t, operation, "%s", body+`,"ProjectionExpression":"r"`), len(all))
		assert.Len(t, c.pages(t, operation, "%s", body+`,"Select":"COUNT"`), len(all))
	}
	slices.Reverse(want)
	assert.Equal(t, want, keysOf(c.pages(t, "Query", query+`,"ScanIndexForward":false`), "r"))

	small := newClient(Config{Timing: atOnce, PageBytes: 30})
	small.createLeases(t, "leases", false)
	for i := range 5 {
		small.put(t, "leases", `"leaseKey":{"S":"s%d"}`, i) // 10 bytes
	}
	assert.Len(t, small.pages(t, "Scan", `{"TableName":"leases"`), 2)
}

// aws-dynamodb#22
func TestScanOrder(t *testing.T) {
	c := leases(t)
	inserted := []string{}
	for i := range 20 {
		inserted = append(inserted, fmt.Sprintf("s%02d", (i*7)%20))
		c.put(t, "leases", `"leaseKey":{"S":%q}`, inserted[i])
	}
	order := keysOf(c.pages(t, "Scan", `{"TableName":"leases"`), "leaseKey")
	assert.NotEqual(t, inserted, order)
	assert.False(t, slices.IsSorted(order))
	assert.ElementsMatch(t, inserted, order)
	assert.Equal(t, order, keysOf(c.pages(t, "Scan", `{"TableName":"leases"`), "leaseKey"))
}

func TestQueryRanges(t *testing.T) {
	c := newClient(Config{Timing: atOnce})
	create := func(table, kind string) {
		c.ok(t, "CreateTable", `{"TableName":%q,"BillingMode":"PAY_PER_REQUEST","KeySchema":[{"AttributeName":"h","KeyType":"HASH"},{"AttributeName":"r","KeyType":"RANGE"}],"AttributeDefinitions":[{"AttributeName":"h","AttributeType":"S"},{"AttributeName":"r","AttributeType":%q}]}`, table, kind)
	}
	create("texts", "S")
	create("numbers", "N")
	for _, h := range []string{"a", "ab", "b"} {
		for _, r := range []string{"a", "ab", "abc", "b"} {
			c.put(t, "texts", `"h":{"S":%q},"r":{"S":%q}`, h, r)
		}
		for _, r := range []string{"-10", "-1.5", "0", "2", "10"} {
			c.put(t, "numbers", `"h":{"S":%q},"r":{"N":%q}`, h, r)
		}
	}
	for _, tt := range []struct {
		table, condition, x, y string
		want                   []string
	}{
		{"texts", "", "", "", []string{"a", "ab", "abc", "b"}},
		{"texts", "r = :x", "ab", "", []string{"ab"}},
		{"texts", ":x = r", "ab", "", []string{"ab"}},
		{"texts", "r < :x", "ab", "", []string{"a"}},
		{"texts", "r <= :x", "ab", "", []string{"a", "ab"}},
		{"texts", "r > :x", "ab", "", []string{"abc", "b"}},
		{"texts", ":x < r", "ab", "", []string{"abc", "b"}},
		{"texts", "r >= :x", "ab", "", []string{"ab", "abc", "b"}},
		{"texts", "r BETWEEN :x AND :y", "ab", "abc", []string{"ab", "abc"}},
		{"texts", "begins_with(r, :x)", "ab", "", []string{"ab", "abc"}},
		{"numbers", "", "", "", []string{"-10", "-1.5", "0", "2", "10"}},
		{"numbers", "r < :x", "0", "", []string{"-10", "-1.5"}},
		{"numbers", "r >= :x", "2.0", "", []string{"2", "10"}},
		{"numbers", "r BETWEEN :x AND :y", "-1.5", "9", []string{"-1.5", "0", "2"}},
	} {
		kind := map[string]string{"texts": "S", "numbers": "N"}[tt.table]
		condition, values := "h = :h", `":h":{"S":"a"}`
		for name, value := range map[string]string{":x": tt.x, ":y": tt.y} {
			if strings.Contains(tt.condition, name) {
				values += fmt.Sprintf(`,%q:{%q:%q}`, name, kind, value)
			}
		}
		if tt.condition != "" {
			condition += " AND " + tt.condition
		}
		query := fmt.Sprintf(`{"TableName":%q,"KeyConditionExpression":%q,"ExpressionAttributeValues":{%s}`, tt.table, condition, values)
		for _, limit := range []string{"", `,"Limit":1`} {
			assert.Equal(t, tt.want, keysOf(c.pages(t, "Query", "%s", query+limit), "r"), "%s%s", query, limit)
			down := slices.Clone(tt.want)
			slices.Reverse(down)
			assert.Equal(t, down, keysOf(c.pages(t, "Query", "%s", query+limit+`,"ScanIndexForward":false`), "r"), "%s%s", query, limit)
		}
	}
	older := `{"TableName":"texts","KeyConditions":{"h":{"ComparisonOperator":"EQ","AttributeValueList":[{"S":"a"}]},"r":{"ComparisonOperator":"BEGINS_WITH","AttributeValueList":[{"S":"ab"}]}}`
	assert.Equal(t, []string{"ab", "abc"}, keysOf(c.pages(t, "Query", "%s", older), "r"))
	assert.Empty(t, keysOf(c.pages(t, "Query", `{"TableName":"texts","KeyConditionExpression":"h = :h","ExpressionAttributeValues":{":h":{"S":"none"}}`), "r"))

	for condition, text := range map[string]string{
		"r = :x":                         "Query condition missed key schema element: h",
		"h > :x":                         "Query key condition not supported",
		"h = :x OR r = :x":               "Invalid operator used in KeyConditionExpression: OR",
		"h = :x AND h = :x":              "KeyConditionExpressions must only contain one condition per key",
		"h = :n AND r = :x":              "Condition parameter type does not match schema type",
		"h = :x AND begins_with(v, :x) ": "Query condition missed key schema element: r",
	} {
		values := `":x":{"S":"a"}`
		if strings.Contains(condition, ":n") {
			values += `,":n":{"N":"1"}`
		}
		c.refused(t, validation, text, "Query", `{"TableName":"texts","KeyConditionExpression":%q,"ExpressionAttributeValues":{%s}}`, condition, values)
	}
	c.refused(t, validation, "Filter Expression can only contain non-primary key attributes: Primary key attribute: r", "Query", `{"TableName":"texts","KeyConditionExpression":"h = :x","FilterExpression":"r = :x","ExpressionAttributeValues":{":x":{"S":"a"}}}`)
	c.ok(t, "Scan", `{"TableName":"texts","FilterExpression":"r = :x","ExpressionAttributeValues":{":x":{"S":"a"}}}`)
	for _, none := range []string{"", `,"FilterExpression":"attribute_exists(v)"`, `,"QueryFilter":{"v":{"ComparisonOperator":"NULL"}}`} {
		c.refused(t, validation, "Either the KeyConditions or KeyConditionExpression parameter must be specified", "Query", `{"TableName":"texts"%s}`, none)
	}
	c.refused(t, validation, "Conditions can be of length 1 or 2 only", "Query", `{"TableName":"texts","KeyConditions":{}}`)
}

func TestSelect(t *testing.T) {
	c := leases(t)
	c.put(t, "leases", `"leaseKey":{"S":"s1"},"leaseOwner":{"S":"A"},"x":{"S":"y"}`)
	c.answers(t, `{"Count":1,"ScannedCount":1}`, "Scan", `{"TableName":"leases","Select":"COUNT"}`)
	c.answers(t, `{"Count":1,"ScannedCount":1,"Items":[{"x":{"S":"y"}}]}`, "Scan", `{"TableName":"leases","Select":"SPECIFIC_ATTRIBUTES","ProjectionExpression":"x"}`)
	c.answers(t, `{"Count":1,"ScannedCount":1,"Items":[{"leaseKey":{"S":"s1"},"leaseOwner":{"S":"A"}}]}`, "Scan", `{"TableName":"leases","IndexName":"owners","Select":"ALL_PROJECTED_ATTRIBUTES"}`)
	c.answers(t, `{"Count":0,"ScannedCount":0,"Items":[]}`, "Query", ownerQuery("leases", "owners", "B"))
	for _, body := range []string{`"Select":"SPECIFIC_ATTRIBUTES"`, `"Select":"COUNT","ProjectionExpression":"x"`, `"Select":"ALL_PROJECTED_ATTRIBUTES"`, `"Select":"SOME"`, `"IndexName":"owners","ProjectionExpression":"x"`} {
		c.refused(t, validation, "", "Scan", `{"TableName":"leases",%s}`, body)
	}
}
