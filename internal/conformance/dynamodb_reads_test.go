package conformance

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

var readCases = []kase{
	{name: "dynamodb/reads/scan pages", run: scanPages},
	{name: "dynamodb/reads/scan segments", run: scanSegments},
	{name: "dynamodb/reads/scan order", run: scanOrder},
	{name: "dynamodb/reads/scan filters", run: scanFilters},
	{name: "dynamodb/reads/refused scans", run: scansRefused},
	{name: "dynamodb/reads/query", run: queries},
	{name: "dynamodb/reads/query pages", run: queryPages},
	{name: "dynamodb/reads/refused queries", run: queriesRefused},
	{name: "dynamodb/reads/page size", run: pageSize},
	{name: "dynamodb/reads/older form", run: olderReads},
}

// scan reads all pages, at most 200, and returns the keys in the order they came
// and what the pages counted.
func (t *T) scan(tb table, more func(*dynamodb.ScanInput)) (keys []string, counts []string) {
	in := &dynamodb.ScanInput{TableName: tb.name, ConsistentRead: aws.Bool(true)}
	if more != nil {
		more(in)
	}
	for range 200 {
		out, err := t.dynamodb.Scan(t.ctx, in)
		t.OK(err)
		counts = append(counts, fmt.Sprintf("%d of %d", out.Count, out.ScannedCount))
		for _, i := range out.Items {
			keys = append(keys, i["leaseKey"].(*types.AttributeValueMemberS).Value)
		}
		if in.ExclusiveStartKey = out.LastEvaluatedKey; in.ExclusiveStartKey == nil {
			return keys, counts
		}
	}
	t.Fatalf("the scan does not end")
	return nil, nil
}

// mixed is a table of n leases and two items of other kinds.
func (t *T) mixed(n int) (tb table, leases []string) {
	tb = t.create(t.leases())
	for i := range n {
		key := fmt.Sprintf("shardId-%012d", i)
		t.put(tb, item{"leaseKey": str(key), "leaseCounter": num(fmt.Sprint(i))})
		leases = append(leases, key)
	}
	t.put(tb, item{"leaseKey": str("Leader"), "entityType": str("LEADER")}, item{"leaseKey": str("worker-1"), "entityType": str("WORKER_METRIC_STATS")})
	return tb, leases
}

func scanPages(t *T) {
	tb, leases := t.mixed(3)
	for limit := int32(1); limit <= 6; limit++ {
		t.Run(fmt.Sprintf("limit %d", limit), func(t *T) {
			keys, counts := t.scan(tb, func(in *dynamodb.ScanInput) { in.Limit = aws.Int32(limit) })
			slices.Sort(keys)
			t.Equal([]string{"Leader", leases[0], leases[1], leases[2], "worker-1"}, keys)
			t.Equal(fmt.Sprintf("%d of %[1]d", min(limit, 5)), counts[0])
		})
	}
	t.Run("the limit counts before the filter", func(t *T) {
		keys, counts := t.scan(tb, func(in *dynamodb.ScanInput) {
			in.Limit, in.FilterExpression = aws.Int32(2), aws.String("attribute_exists(leaseCounter)")
		})
		t.Equal(3, len(keys))
		for i, scanned := range []string{"of 2", "of 2", "of 1"} {
			t.True(i < len(counts) && strings.HasSuffix(counts[i], scanned), "page ", i, " has ", scanned, ": ", counts)
		}
	})
	t.Run("nothing matches", func(t *T) {
		_, counts := t.scan(tb, func(in *dynamodb.ScanInput) {
			in.Limit, in.FilterExpression = aws.Int32(2), aws.String("attribute_exists(nothing)")
		})
		t.Equal("[0 of 2 0 of 2 0 of 1]", fmt.Sprint(counts))
	})
	t.Run("empty table", func(t *T) {
		out, err := t.dynamodb.Scan(t.ctx, &dynamodb.ScanInput{TableName: t.create(t.leases()).name})
		t.OK(err)
		t.Equal(0, len(out.Items))
		t.True(out.LastEvaluatedKey == nil, "no last key")
	})
	t.Run("an item that is gone marks a place", func(t *T) {
		first, err := t.dynamodb.Scan(t.ctx, &dynamodb.ScanInput{TableName: tb.name, Limit: aws.Int32(2)})
		t.OK(err)
		all, _ := t.scan(tb, nil)
		t.Equal(1, len(first.LastEvaluatedKey), "attributes of the last key")
		t.remove(tb, first.LastEvaluatedKey)
		rest, _ := t.scan(tb, func(in *dynamodb.ScanInput) { in.ExclusiveStartKey = first.LastEvaluatedKey })
		t.Equal(all[2:], rest)
	})
}

func scanSegments(t *T) {
	tb, _ := t.mixed(20)
	whole, _ := t.scan(tb, nil)
	slices.Sort(whole)
	for _, total := range []int32{1, 3, 10, 64} {
		for _, limit := range []int32{0, 1, 3} {
			t.Run(fmt.Sprintf("%d, limit %d", total, limit), func(t *T) {
				var all []string
				for segment := range total {
					keys, _ := t.scan(tb, func(in *dynamodb.ScanInput) {
						in.Segment, in.TotalSegments = aws.Int32(segment), aws.Int32(total)
						if limit > 0 {
							in.Limit = aws.Int32(limit)
						}
					})
					all = append(all, keys...)
				}
				slices.Sort(all)
				t.Equal(whole, all, "each item comes once")
			})
		}
	}
	t.Run("start in another segment", func(t *T) {
		var key item
		for segment := range int32(2) {
			out, err := t.dynamodb.Scan(t.ctx, &dynamodb.ScanInput{TableName: tb.name, Segment: aws.Int32(segment), TotalSegments: aws.Int32(2), Limit: aws.Int32(1)})
			t.OK(err)
			if key != nil {
				_, err := t.dynamodb.Scan(t.ctx, &dynamodb.ScanInput{TableName: tb.name, Segment: aws.Int32(segment), TotalSegments: aws.Int32(2), ExclusiveStartKey: key})
				t.Refused("ValidationException", err)
			}
			key = out.LastEvaluatedKey
		}
	})
}

func scanOrder(t *T) {
	tb, leases := t.mixed(20)
	first, _ := t.scan(tb, nil)
	second, _ := t.scan(tb, func(in *dynamodb.ScanInput) { in.Limit = aws.Int32(3) })
	t.Run("stays", func(t *T) { t.Equal(first, second) })
	t.Run("is not that of keys or of writing", func(t *T) {
		only := slices.DeleteFunc(slices.Clone(first), func(k string) bool { return !slices.Contains(leases, k) })
		t.True(!slices.Equal(leases, only), "hashed")
	})
}

func scanFilters(t *T) {
	tb := t.create(t.leases())
	t.put(tb, sample(), lease("s2"), item{"leaseKey": str("s3"), "leaseOwner": str("B"), "leaseCounter": num("10")})
	rows := map[string]string{
		"leaseOwner = :A": "s1", "leaseOwner <> :A": "s2 s3", "leaseCounter > :n8": "s3", "attribute_not_exists(leaseOwner)": "s2",
		"leaseKey = :s1": "s1", "begins_with(leaseKey, :Q)": "", "leaseOwner IN (:A, :B)": "s1 s3", "size(tags) = :n2": "s1",
		"NOT contains(tags, :x)": "s2 s3", "leaseCounter BETWEEN :n8 AND :n10": "s3", "leaseOwner < :Q": "s1 s3",
	}
	for filter, want := range sorted(rows) {
		t.Run(filter, func(t *T) {
			keys, _ := t.scan(tb, func(in *dynamodb.ScanInput) {
				in.FilterExpression, in.ExpressionAttributeValues = &filter, used(pool(), filter)
			})
			slices.Sort(keys)
			t.Equal(want, strings.Join(keys, " "))
		})
	}
	t.Run("count", func(t *T) {
		out, err := t.dynamodb.Scan(t.ctx, &dynamodb.ScanInput{TableName: tb.name, Select: types.SelectCount})
		t.OK(err)
		t.Equal("3 3 none", fmt.Sprint(out.Count, " ", out.ScannedCount, " ", showItems(out.Items)))
	})
	t.Run("projection", func(t *T) {
		out, err := t.dynamodb.Scan(t.ctx, &dynamodb.ScanInput{TableName: tb.name, ProjectionExpression: aws.String("leaseOwner")})
		t.OK(err)
		t.Equal([]string{"{}", `{leaseOwner:"A"}`, `{leaseOwner:"B"}`}, sortedByLength(showAll(out.Items)))
	})
}

func showItems(items []item) string {
	if items == nil {
		return "none"
	}
	return fmt.Sprint(len(items), " items")
}

func sortedByLength(s []string) []string {
	slices.SortFunc(s, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	return s
}

func scansRefused(t *T) {
	tb := t.create(t.leases())
	rows := map[string]func(*dynamodb.ScanInput){
		"limit 0":             func(in *dynamodb.ScanInput) { in.Limit = aws.Int32(0) },
		"segment alone":       func(in *dynamodb.ScanInput) { in.Segment = aws.Int32(0) },
		"total alone":         func(in *dynamodb.ScanInput) { in.TotalSegments = aws.Int32(2) },
		"segment beyond":      func(in *dynamodb.ScanInput) { in.Segment, in.TotalSegments = aws.Int32(5), aws.Int32(5) },
		"segment below":       func(in *dynamodb.ScanInput) { in.Segment, in.TotalSegments = aws.Int32(-1), aws.Int32(5) },
		"too many segments":   func(in *dynamodb.ScanInput) { in.Segment, in.TotalSegments = aws.Int32(0), aws.Int32(1_000_001) },
		"start of wrong type": func(in *dynamodb.ScanInput) { in.ExclusiveStartKey = item{"leaseKey": num("1")} },
		"start that is no key": func(in *dynamodb.ScanInput) {
			in.ExclusiveStartKey = item{"other": str("1")}
		},
		"count with projection":      func(in *dynamodb.ScanInput) { in.Select, in.ProjectionExpression = types.SelectCount, aws.String("a") },
		"specific without attribute": func(in *dynamodb.ScanInput) { in.Select = types.SelectSpecificAttributes },
		"unknown index":              func(in *dynamodb.ScanInput) { in.IndexName = aws.String("unknown") },
	}
	for name, spoil := range sorted(rows) {
		t.Run(name, func(t *T) {
			in := &dynamodb.ScanInput{TableName: tb.name}
			spoil(in)
			_, err := t.dynamodb.Scan(t.ctx, in)
			t.Refused("ValidationException", err)
		})
	}
}

// partition is a table with items 1 to n, written in reverse, under p = "a", and
// one under another.
func (t *T) partition(n int) table {
	tb := t.create(t.partitioned())
	for i := n; i > 0; i-- {
		t.put(tb, item{"p": str("a"), "r": num(fmt.Sprint(i)), "odd": truth(i%2 == 1)})
	}
	t.put(tb, item{"p": str("b"), "r": num("1")})
	return tb
}

func (t *T) query(tb table, more func(*dynamodb.QueryInput)) (*dynamodb.QueryOutput, error) {
	in := &dynamodb.QueryInput{TableName: tb.name, KeyConditionExpression: aws.String("p = :p"), ExpressionAttributeValues: item{":p": str("a")}}
	if more != nil {
		more(in)
	}
	return t.dynamodb.Query(t.ctx, in)
}

// places are the sort keys of items, in their order.
func places(items []item) string {
	var out []string
	for _, i := range items {
		out = append(out, showValue(i["r"]))
	}
	return strings.Join(out, " ")
}

func queries(t *T) {
	tb := t.partition(12)
	rows := map[string]string{
		"p = :p":                           "1 2 3 4 5 6 7 8 9 10 11 12",
		"p = :p AND r = :n7":               "7",
		"p = :p AND r < :n2":               "1",
		"p = :p AND r <= :n2":              "1 2",
		"r >= :n10 AND p = :p":             "10 11 12",
		"p = :p AND r > :n10":              "11 12",
		"p = :p AND r BETWEEN :n2 AND :n7": "2 3 4 5 6 7",
		"(p = :p) AND (:n10 < r)":          "11 12",
		"p = :none":                        "",
	}
	for cond, want := range sorted(rows) {
		t.Run(cond, func(t *T) {
			out, err := t.query(tb, func(in *dynamodb.QueryInput) {
				values := pool()
				values[":p"], values[":none"] = str("a"), str("nobody")
				in.KeyConditionExpression, in.ExpressionAttributeValues = &cond, used(values, cond)
			})
			t.OK(err)
			t.Equal(want, places(out.Items))
		})
	}
	t.Run("backwards", func(t *T) {
		out, err := t.query(tb, func(in *dynamodb.QueryInput) { in.ScanIndexForward = aws.Bool(false) })
		t.OK(err)
		t.Equal("12 11 10 9 8 7 6 5 4 3 2 1", places(out.Items))
	})
	t.Run("filter", func(t *T) {
		out, err := t.query(tb, func(in *dynamodb.QueryInput) {
			in.FilterExpression, in.ExpressionAttributeValues[":yes"] = aws.String("odd = :yes"), truth(true)
		})
		t.OK(err)
		t.Equal("1 3 5 7 9 11, 6 of 12", fmt.Sprintf("%s, %d of %d", places(out.Items), out.Count, out.ScannedCount))
	})
	t.Run("count", func(t *T) {
		out, err := t.query(tb, func(in *dynamodb.QueryInput) { in.Select = types.SelectCount })
		t.OK(err)
		t.Equal("12 none", fmt.Sprint(out.Count, " ", showItems(out.Items)))
	})
}

func queryPages(t *T) {
	tb := t.partition(10)
	for name, want := range sorted(map[string]string{"forward": "1 2 3 4 5 6 7 8 9 10", "backward": "10 9 8 7 6 5 4 3 2 1"}) {
		t.Run(name, func(t *T) {
			forward := name == "forward"
			var all, from = []item{}, item(nil)
			for range 20 {
				out, err := t.query(tb, func(in *dynamodb.QueryInput) {
					in.Limit, in.ExclusiveStartKey, in.ScanIndexForward = aws.Int32(3), from, &forward
				})
				t.OK(err)
				t.True(len(out.Items) <= 3, "a page holds no more than asked for")
				all = append(all, out.Items...)
				if from = out.LastEvaluatedKey; from == nil {
					break
				}
			}
			t.Equal(want, places(all))
		})
	}
	t.Run("from where nothing is", func(t *T) {
		out, err := t.query(tb, func(in *dynamodb.QueryInput) { in.ExclusiveStartKey = item{"p": str("a"), "r": num("4.5")} })
		t.OK(err)
		t.Equal("5 6 7 8 9 10", places(out.Items))
	})
}

func queriesRefused(t *T) {
	tb := t.partition(1)
	values := func() item {
		v := pool()
		v[":p"] = str("a")
		return v
	}
	conditions := map[string]string{
		"no partition":         "r = :n1",
		"range of partitions":  "p > :p",
		"OR":                   "p = :p OR r = :n1",
		"twice the sort key":   "p = :p AND r > :n1 AND r < :n8",
		"another attribute":    "p = :p AND odd = :yes",
		"NOT":                  "NOT p = :p",
		"unequal":              "p = :p AND r <> :n1",
		"wrong type":           "p = :n1",
		"wrong type of sort":   "p = :p AND r = :A",
		"begins_with a number": "p = :p AND begins_with(r, :n1)",
		"syntax":               "p = :p AND",
		"bounds in reverse":    "p = :p AND r BETWEEN :n8 AND :n1",
	}
	for name, cond := range sorted(conditions) {
		t.Run(name, func(t *T) {
			_, err := t.query(tb, func(in *dynamodb.QueryInput) {
				in.KeyConditionExpression, in.ExpressionAttributeValues = &cond, used(values(), cond)
			})
			t.Refused("ValidationException", err)
		})
	}
	rows := map[string]func(*dynamodb.QueryInput){
		"no condition":        func(in *dynamodb.QueryInput) { in.KeyConditionExpression, in.ExpressionAttributeValues = nil, nil },
		"filter on a key":     func(in *dynamodb.QueryInput) { in.FilterExpression = aws.String("p = :p") },
		"start elsewhere":     func(in *dynamodb.QueryInput) { in.ExclusiveStartKey = item{"p": str("b"), "r": num("1")} },
		"start with half":     func(in *dynamodb.QueryInput) { in.ExclusiveStartKey = item{"p": str("a")} },
		"start of wrong type": func(in *dynamodb.QueryInput) { in.ExclusiveStartKey = item{"p": str("a"), "r": str("1")} },
		"start with too much": func(in *dynamodb.QueryInput) {
			in.ExclusiveStartKey = item{"p": str("a"), "r": num("1"), "x": num("1")}
		},
		"limit 0":              func(in *dynamodb.QueryInput) { in.Limit = aws.Int32(0) },
		"unknown index":        func(in *dynamodb.QueryInput) { in.IndexName = aws.String("unknown") },
		"projected attributes": func(in *dynamodb.QueryInput) { in.Select = types.SelectAllProjectedAttributes },
	}
	for name, spoil := range sorted(rows) {
		t.Run(name, func(t *T) {
			_, err := t.query(tb, spoil)
			t.Refused("ValidationException", err)
		})
	}
}

// A page holds a megabyte.
func pageSize(t *T) {
	tb := t.create(t.partitioned())
	filler := strings.Repeat("x", 60<<10)
	for i := range 20 {
		t.put(tb, item{"p": str("a"), "r": num(fmt.Sprint(i)), "v": str(filler)})
	}
	t.Run("query", func(t *T) {
		total, pages, from := 0, 0, item(nil)
		for range 20 {
			out, err := t.query(tb, func(in *dynamodb.QueryInput) { in.ExclusiveStartKey = from })
			t.OK(err)
			total, pages = total+len(out.Items), pages+1
			if from = out.LastEvaluatedKey; from == nil {
				break
			}
		}
		t.Equal("20 on 2", fmt.Sprintf("%d on %d", total, pages))
	})
	t.Run("scan that shows little", func(t *T) {
		out, err := t.dynamodb.Scan(t.ctx, &dynamodb.ScanInput{TableName: tb.name, ProjectionExpression: aws.String("p")})
		t.OK(err)
		t.True(out.LastEvaluatedKey != nil, "what is not shown counts")
	})
	t.Run("limit below it", func(t *T) {
		out, err := t.query(tb, func(in *dynamodb.QueryInput) { in.Limit = aws.Int32(5) })
		t.OK(err)
		t.Equal(5, len(out.Items))
	})
}

// KeyConditions, ScanFilter and QueryFilter are what Java workers before 3.0 send.
func olderReads(t *T) {
	tb := t.partition(5)
	rows := map[string]struct {
		operation, members string
		count, scanned     float64
	}{
		"partition":          {"Query", `"KeyConditions":{"p":{"ComparisonOperator":"EQ","AttributeValueList":[{"S":"a"}]}}`, 5, 5},
		"both keys":          {"Query", `"KeyConditions":{"p":{"ComparisonOperator":"EQ","AttributeValueList":[{"S":"a"}]},"r":{"ComparisonOperator":"GT","AttributeValueList":[{"N":"3"}]}}`, 2, 2},
		"QueryFilter":        {"Query", `"KeyConditions":{"p":{"ComparisonOperator":"EQ","AttributeValueList":[{"S":"a"}]}},"QueryFilter":{"odd":{"ComparisonOperator":"EQ","AttributeValueList":[{"BOOL":true}]}}`, 3, 5},
		"ScanFilter":         {"Scan", `"ScanFilter":{"r":{"ComparisonOperator":"LE","AttributeValueList":[{"N":"2"}]}}`, 3, 6},
		"ScanFilter OR":      {"Scan", `"ConditionalOperator":"OR","ScanFilter":{"r":{"ComparisonOperator":"EQ","AttributeValueList":[{"N":"2"}]},"odd":{"ComparisonOperator":"NULL"}}`, 2, 6},
		"with an expression": {"Query", `"KeyConditions":{"p":{"ComparisonOperator":"EQ","AttributeValueList":[{"S":"a"}]}},"FilterExpression":"attribute_exists(odd)"`, 5, 5},
	}
	for name, row := range sorted(rows) {
		t.Run(name, func(t *T) {
			a := t.send(row.operation, fmt.Sprintf(`{"TableName":%q,%s}`, *tb.name, row.members))
			t.Accepted(a)
			t.Equal([]any{row.count, row.scanned}, []any{a.get("Count"), a.get("ScannedCount")})
		})
	}
}
