package conformance

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

var transactionCases = []kase{
	{name: "dynamodb/transactions/write", run: transactions},
	{name: "dynamodb/transactions/cancelled", run: transactionsCancelled},
	{name: "dynamodb/transactions/refused", run: transactionsRefused},
	{name: "dynamodb/transactions/token", run: transactionTokens},
	{name: "dynamodb/transactions/token's life", run: transactionTokenLife, hours: true},
	{name: "dynamodb/transactions/move of a table", run: transactionMove},
	{name: "dynamodb/transactions/get", run: transactionGets},
}

// The four actions, on the lease of a key.
func (tb table) check(key, cond string) types.TransactWriteItem {
	return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{TableName: tb.name, Key: lease(key), ConditionExpression: &cond, ExpressionAttributeValues: used(pool(), cond)}}
}

func (tb table) putting(i item, cond ...string) types.TransactWriteItem {
	p := &types.Put{TableName: tb.name, Item: i}
	if len(cond) > 0 {
		p.ConditionExpression, p.ExpressionAttributeValues = &cond[0], used(pool(), cond[0])
	}
	return types.TransactWriteItem{Put: p}
}

func (tb table) updating(key, update string, cond ...string) types.TransactWriteItem {
	u := &types.Update{TableName: tb.name, Key: lease(key), UpdateExpression: &update}
	if len(cond) > 0 {
		u.ConditionExpression = &cond[0]
	}
	u.ExpressionAttributeValues = used(pool(), update+" "+strings.Join(cond, " "))
	return types.TransactWriteItem{Update: u}
}

func (tb table) deleting(key string, cond ...string) types.TransactWriteItem {
	d := &types.Delete{TableName: tb.name, Key: lease(key)}
	if len(cond) > 0 {
		d.ConditionExpression, d.ExpressionAttributeValues = &cond[0], used(pool(), cond[0])
	}
	return types.TransactWriteItem{Delete: d}
}

func (t *T) transact(actions ...types.TransactWriteItem) error {
	_, err := t.dynamodb.TransactWriteItems(t.ctx, &dynamodb.TransactWriteItemsInput{TransactItems: actions})
	return err
}

// reasons shows why a transaction was cancelled.
func (t *T) reasons(err error) string {
	cancelled := (*types.TransactionCanceledException)(nil)
	if !errors.As(err, &cancelled) {
		t.Fatalf("want a cancelled transaction, got %s", brief(err))
	}
	var out []string
	for _, r := range cancelled.CancellationReasons {
		text := aws.ToString(r.Code)
		if r.Item != nil {
			text += show(r.Item)
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func transactions(t *T) {
	one, two := t.create(t.leases()), t.create(t.leases())
	t.put(one, sample(), lease("s2"), lease("s3"))
	t.OK(t.transact(
		one.check("s2", "attribute_exists(leaseKey)"),
		one.updating("s1", "SET leaseOwner = :B ADD leaseCounter :n1", "leaseOwner = :A"),
		one.deleting("s3", "attribute_not_exists(leaseOwner)"),
		two.putting(lease("s1"), "attribute_not_exists(leaseKey)"),
		two.updating("s4", "SET leaseOwner = :A"),
		two.deleting("absent"),
	))
	t.Run("updated", func(t *T) {
		want := sample()
		want["leaseOwner"], want["leaseCounter"] = str("B"), num("8")
		t.Equal(show(want), t.get(one, lease("s1")))
	})
	t.Run("checked", func(t *T) { t.Equal(`{leaseKey:"s2"}`, t.get(one, lease("s2"))) })
	t.Run("deleted", func(t *T) { t.Equal("none", t.get(one, lease("s3"))) })
	t.Run("put", func(t *T) { t.Equal(`{leaseKey:"s1"}`, t.get(two, lease("s1"))) })
	t.Run("created by an update", func(t *T) { t.Equal(`{leaseKey:"s4" leaseOwner:"A"}`, t.get(two, lease("s4"))) })
	t.Run("numbers in plain form", func(t *T) {
		t.OK(t.transact(two.putting(item{"leaseKey": str("n"), "v": num("85.0")})))
		t.Equal(`{leaseKey:"n" v:85}`, t.get(two, lease("n")))
	})
}

func transactionsCancelled(t *T) {
	tb := t.create(t.leases())
	t.put(tb, sample())
	withItem := func(a types.TransactWriteItem) types.TransactWriteItem {
		const wish = types.ReturnValuesOnConditionCheckFailureAllOld
		switch {
		case a.ConditionCheck != nil:
			a.ConditionCheck.ReturnValuesOnConditionCheckFailure = wish
		case a.Put != nil:
			a.Put.ReturnValuesOnConditionCheckFailure = wish
		case a.Update != nil:
			a.Update.ReturnValuesOnConditionCheckFailure = wish
		case a.Delete != nil:
			a.Delete.ReturnValuesOnConditionCheckFailure = wish
		}
		return a
	}
	rows := map[string]struct {
		actions []types.TransactWriteItem
		want    string
	}{
		"check":             {[]types.TransactWriteItem{tb.putting(lease("new")), tb.check("s1", "leaseOwner = :B")}, "None ConditionalCheckFailed"},
		"put":               {[]types.TransactWriteItem{tb.putting(lease("s1"), "attribute_not_exists(leaseKey)"), tb.putting(lease("new"))}, "ConditionalCheckFailed None"},
		"update":            {[]types.TransactWriteItem{tb.putting(lease("new")), tb.updating("s1", "SET leaseOwner = :B", "leaseCounter = :n8")}, "None ConditionalCheckFailed"},
		"delete":            {[]types.TransactWriteItem{tb.putting(lease("new")), tb.deleting("s1", "leaseOwner = :B")}, "None ConditionalCheckFailed"},
		"two":               {[]types.TransactWriteItem{tb.check("s1", "leaseOwner = :B"), tb.putting(lease("new")), tb.check("absent", "attribute_exists(leaseKey)")}, "ConditionalCheckFailed None ConditionalCheckFailed"},
		"with the item":     {[]types.TransactWriteItem{tb.putting(lease("new")), withItem(tb.check("s1", "leaseOwner = :B"))}, "None ConditionalCheckFailed" + show(sample())},
		"with items":        {[]types.TransactWriteItem{withItem(tb.updating("s1", "SET leaseOwner = :B", "leaseOwner = :B")), withItem(tb.deleting("absent", "attribute_exists(leaseKey)"))}, "ConditionalCheckFailed" + show(sample()) + " ConditionalCheckFailed"},
		"missing operand":   {[]types.TransactWriteItem{tb.putting(lease("new")), tb.updating("s1", "SET leaseCounter = absent + :n1")}, "None ValidationError"},
		"wrong key":         {[]types.TransactWriteItem{tb.putting(lease("new")), tb.putting(item{"other": str("x")})}, "None ValidationError"},
		"wrong type of key": {[]types.TransactWriteItem{tb.putting(item{"leaseKey": num("1")}), tb.putting(lease("new"))}, "ValidationError None"},
	}
	for name, row := range sorted(rows) {
		t.Run(name, func(t *T) {
			t.Equal(row.want, t.reasons(t.transact(row.actions...)))
			t.Equal("none", t.get(tb, lease("new")), "nothing was written")
			t.Equal(show(sample()), t.get(tb, lease("s1")))
			t.remove(tb, lease("new"))
		})
	}
}

// What is refused as a whole: no action is looked at.
func transactionsRefused(t *T) {
	tb := t.create(t.leases())
	unknown := table{name: aws.String(t.Unused())}
	var many []types.TransactWriteItem
	for _, i := range numbered(101) {
		many = append(many, tb.putting(i))
	}
	rows := map[string]struct {
		code    string
		actions []types.TransactWriteItem
	}{
		"nothing":             {"ValidationException", []types.TransactWriteItem{}},
		"101":                 {"ValidationException", many},
		"an item twice":       {"ValidationException", []types.TransactWriteItem{tb.putting(lease("new")), tb.deleting("new")}},
		"checked and written": {"ValidationException", []types.TransactWriteItem{tb.check("new", "attribute_not_exists(leaseKey)"), tb.putting(lease("new"))}},
		"two in one":          {"ValidationException", []types.TransactWriteItem{{Put: tb.putting(lease("new")).Put, Delete: tb.deleting("s2").Delete}}},
		"unknown table":       {"ResourceNotFoundException", []types.TransactWriteItem{tb.putting(lease("new")), unknown.putting(lease("new"))}},
		"syntax":              {"ValidationException", []types.TransactWriteItem{tb.putting(lease("new")), tb.check("s1", "leaseOwner = = :A")}},
		"unused value": {"ValidationException", []types.TransactWriteItem{tb.putting(lease("new")), {Delete: &types.Delete{TableName: tb.name, Key: lease("s1"),
			ConditionExpression: aws.String("attribute_exists(leaseKey)"), ExpressionAttributeValues: item{":x": str("x")}}}}},
		"empty key": {"ValidationException", []types.TransactWriteItem{tb.putting(lease("new")), tb.putting(lease(""))}},
		"too large": {"ValidationException", []types.TransactWriteItem{tb.putting(lease("new")), tb.putting(item{"leaseKey": str("big"), "v": str(strings.Repeat("x", 410_000))})}},
	}
	for name, row := range sorted(rows) {
		t.Run(name, func(t *T) {
			t.Refused(row.code, t.transact(row.actions...))
			t.Equal("none", t.get(tb, lease("new")), "nothing was written")
			t.remove(tb, lease("new"))
		})
	}
}

// A token makes a repeated transaction the same one.
func transactionTokens(t *T) {
	tb := t.create(t.leases())
	t.put(tb, lease("s1"))
	in := &dynamodb.TransactWriteItemsInput{ClientRequestToken: aws.String("token-1"), TransactItems: []types.TransactWriteItem{tb.updating("s1", "ADD leaseCounter :n1")}}
	send := func() error {
		_, err := t.dynamodb.TransactWriteItems(t.ctx, in)
		return err
	}
	t.OK(send())
	t.Run("again", func(t *T) {
		t.OK(send())
		t.Equal(`{leaseCounter:1 leaseKey:"s1"}`, t.get(tb, lease("s1")))
	})
	t.Run("again after somebody else's change", func(t *T) {
		t.put(tb, item{"leaseKey": str("s1"), "leaseCounter": num("70")})
		t.OK(send())
		t.Equal(`{leaseCounter:70 leaseKey:"s1"}`, t.get(tb, lease("s1")))
	})
	t.Run("with another content", func(t *T) {
		in.TransactItems = []types.TransactWriteItem{tb.updating("s1", "ADD leaseCounter :n2")}
		t.Refused("IdempotentParameterMismatchException", send())
	})
	t.Run("too long", func(t *T) {
		in.ClientRequestToken = aws.String(strings.Repeat("t", 37))
		t.Refused("ValidationException", send())
	})
}

func transactionTokenLife(t *T) {
	tb := t.create(t.leases())
	send := func() {
		_, err := t.dynamodb.TransactWriteItems(t.ctx, &dynamodb.TransactWriteItemsInput{ClientRequestToken: aws.String("token-1"),
			TransactItems: []types.TransactWriteItem{tb.updating("s1", "ADD leaseCounter :n1")}})
		t.OK(err)
	}
	send()
	time.Sleep(9 * time.Minute)
	send()
	t.Equal(`{leaseCounter:1 leaseKey:"s1"}`, t.get(tb, lease("s1")), "within ten minutes")
	time.Sleep(11 * time.Minute)
	send()
	t.Equal(`{leaseCounter:2 leaseKey:"s1"}`, t.get(tb, lease("s1")), "later it is another one")
}

// The move of 25 items between two tables beside a check of the leader's lock, as
// a table migration does it: all or nothing.
func transactionMove(t *T) {
	from, to := t.create(t.leases()), t.create(t.leases())
	t.put(to, item{"leaseKey": str("Leader"), "leaseOwner": str("A")})
	move := func(leader string) error {
		actions := []types.TransactWriteItem{to.check("Leader", leader)}
		for _, i := range numbered(25) {
			key := i["leaseKey"].(*types.AttributeValueMemberS).Value
			actions = append(actions, to.putting(i, "attribute_not_exists(leaseKey)"), from.deleting(key, "attribute_exists(leaseKey)"))
		}
		return t.transact(actions...)
	}
	t.put(from, numbered(25)...)
	count := func() string {
		a, _ := t.scan(from, nil)
		b, _ := t.scan(to, nil)
		return fmt.Sprint(len(a), " ", len(b))
	}
	t.Run("not the leader", func(t *T) {
		t.Equal("ConditionalCheckFailed"+strings.Repeat(" None", 50), t.reasons(move("leaseOwner = :B")))
		t.Equal("25 1", count())
	})
	t.Run("the leader", func(t *T) {
		t.OK(move("leaseOwner = :A"))
		t.Equal("0 26", count())
	})
}

func transactionGets(t *T) {
	tb := t.create(t.leases())
	t.put(tb, sample(), lease("s2"))
	get := func(key, projection string) types.TransactGetItem {
		g := &types.Get{TableName: tb.name, Key: lease(key)}
		if projection != "" {
			g.ProjectionExpression = &projection
		}
		return types.TransactGetItem{Get: g}
	}
	t.Run("in order, with holes", func(t *T) {
		out, err := t.dynamodb.TransactGetItems(t.ctx, &dynamodb.TransactGetItemsInput{TransactItems: []types.TransactGetItem{get("s2", ""), get("absent", ""), get("s1", "leaseCounter")}})
		t.OK(err)
		var items []string
		for _, r := range out.Responses {
			items = append(items, show(r.Item))
		}
		t.Equal([]string{`{leaseKey:"s2"}`, "none", "{leaseCounter:7}"}, items)
	})
	t.Run("an item twice", func(t *T) {
		_, err := t.dynamodb.TransactGetItems(t.ctx, &dynamodb.TransactGetItemsInput{TransactItems: []types.TransactGetItem{get("s1", ""), get("s1", "")}})
		t.Refused("ValidationException", err)
	})
	t.Run("101", func(t *T) {
		var many []types.TransactGetItem
		for _, i := range numbered(101) {
			many = append(many, types.TransactGetItem{Get: &types.Get{TableName: tb.name, Key: i}})
		}
		_, err := t.dynamodb.TransactGetItems(t.ctx, &dynamodb.TransactGetItemsInput{TransactItems: many})
		t.Refused("ValidationException", err)
	})
}
