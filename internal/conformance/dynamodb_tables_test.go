package conformance

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

var tableCases = []kase{
	{name: "dynamodb/tables/creation", run: tableCreation},
	{name: "dynamodb/tables/description", run: tableDescription},
	{name: "dynamodb/tables/refused creation", run: refusedCreation},
	{name: "dynamodb/tables/unknown", run: unknownTable},
	{name: "dynamodb/tables/deletion", run: tableDeletion},
	{name: "dynamodb/tables/list", run: tableList},
	{name: "dynamodb/tables/billing mode", run: billingMode},
	{name: "dynamodb/tables/deletion protection", run: deletionProtection},
	{name: "dynamodb/tables/deletion protection pause", run: deletionProtectionPause, hours: true},
	{name: "dynamodb/tables/backups", run: backups},
	{name: "dynamodb/tables/tags", run: tableTags},
}

func tableCreation(t *T) {
	in := t.indexed()
	out, err := t.dynamodb.CreateTable(t.ctx, in)
	t.OK(err)
	t.Run("answer says CREATING", func(t *T) {
		t.Equal(types.TableStatusCreating, out.TableDescription.TableStatus)
	})
	t.Run("no items yet", func(t *T) {
		_, err := t.dynamodb.GetItem(t.ctx, &dynamodb.GetItemInput{TableName: in.TableName, Key: lease("a")})
		t.Refused("ResourceNotFoundException", err)
	})
	t.Run("name taken while CREATING", func(t *T) {
		_, err := t.dynamodb.CreateTable(t.ctx, in)
		t.Refused("ResourceInUseException", err)
	})
	t.Run("no deletion while CREATING", func(t *T) {
		another := t.leases()
		_, err := t.dynamodb.CreateTable(t.ctx, another)
		t.OK(err)
		_, err = t.dynamodb.DeleteTable(t.ctx, &dynamodb.DeleteTableInput{TableName: another.TableName})
		t.Refused("ResourceInUseException", err)
	})
	tb := table{name: in.TableName, keys: []string{"leaseKey"}}
	t.Run("ACTIVE with its index", func(t *T) {
		t.Await("table ACTIVE", func() bool {
			d := t.describe(tb)
			index := d.GlobalSecondaryIndexes[0]
			t.True(index.Backfilling == nil, "an index created with its table has nothing to fill")
			t.Equal(d.TableStatus == types.TableStatusActive, index.IndexStatus == types.IndexStatusActive, "index ACTIVE")
			return d.TableStatus == types.TableStatusActive
		})
		t.put(tb, lease("a"))
		t.Equal(`{leaseKey:"a"}`, t.get(tb, lease("a")))
	})
	t.Run("name taken", func(t *T) {
		_, err := t.dynamodb.CreateTable(t.ctx, in)
		t.Refused("ResourceInUseException", err)
		t.Equal(`{leaseKey:"a"}`, t.get(tb, lease("a")), "and nothing happened to the table")
	})
}

func tableDescription(t *T) {
	tb := t.create(t.leases())
	d := t.describe(tb)
	t.Run("on demand", func(t *T) {
		t.True(d.BillingModeSummary != nil && d.BillingModeSummary.BillingMode == types.BillingModePayPerRequest, "says so")
		t.Equal("0 0 0", throughput(d.ProvisionedThroughput), "capacity, decreases")
		t.True(d.BillingModeSummary != nil && d.BillingModeSummary.LastUpdateToPayPerRequestDateTime != nil, "says since when")
	})
	t.Run("identity", func(t *T) {
		t.Equal("arn:aws:dynamodb:us-east-1:"+account+":table/"+*tb.name, aws.ToString(d.TableArn))
		t.Equal(36, len(aws.ToString(d.TableId)), "length of the id")
		t.True(d.CreationDateTime != nil, "has a creation time")
	})
	t.Run("no index", func(t *T) {
		a := t.send("DescribeTable", fmt.Sprintf(`{"TableName":%q}`, *tb.name))
		t.Accepted(a)
		t.Equal(nil, a.get("Table.GlobalSecondaryIndexes"), "GlobalSecondaryIndexes")
	})
	t.Run("protection off", func(t *T) {
		t.Equal(false, d.DeletionProtectionEnabled != nil && *d.DeletionProtectionEnabled)
		t.True(d.DeletionProtectionEnabled != nil, "always told")
	})
	t.Run("counts are old", func(t *T) {
		t.put(tb, lease("a"), lease("b"))
		d := t.describe(tb)
		t.Equal("0 0", fmt.Sprint(aws.ToInt64(d.ItemCount), aws.ToInt64(d.TableSizeBytes)), "items and bytes of a young table")
	})
	t.Run("by ARN", func(t *T) {
		out, err := t.dynamodb.DescribeTable(t.ctx, &dynamodb.DescribeTableInput{TableName: d.TableArn})
		t.OK(err)
		t.Equal(*tb.name, aws.ToString(out.Table.TableName))
	})
	t.Run("provisioned", func(t *T) {
		in := t.leases()
		in.BillingMode = types.BillingModeProvisioned
		in.ProvisionedThroughput = &types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(3), WriteCapacityUnits: aws.Int64(2)}
		d := t.describe(t.create(in))
		t.True(d.BillingModeSummary == nil, "a table that was always provisioned has no BillingModeSummary")
		t.Equal("3 2 0", throughput(d.ProvisionedThroughput))
	})
	t.Run("index", func(t *T) {
		d := t.describe(t.create(t.indexed()))
		t.Equal(1, len(d.GlobalSecondaryIndexes), "indexes")
		index := d.GlobalSecondaryIndexes[0]
		t.Equal(*d.TableArn+"/index/"+ownerIndex, aws.ToString(index.IndexArn))
		t.Equal(types.ProjectionTypeKeysOnly, index.Projection.ProjectionType)
		t.Equal([]string{"leaseKey S", "leaseOwner S"}, definitions(d.AttributeDefinitions))
	})
}

func throughput(p *types.ProvisionedThroughputDescription) string {
	if p == nil {
		return "none"
	}
	show := func(n *int64) string {
		if n == nil {
			return "none"
		}
		return fmt.Sprint(*n)
	}
	return show(p.ReadCapacityUnits) + " " + show(p.WriteCapacityUnits) + " " + show(p.NumberOfDecreasesToday)
}

// definitions shows attribute definitions, whose order is not promised.
func definitions(defs []types.AttributeDefinition) []string {
	out := make([]string, len(defs))
	for i, d := range defs {
		out[i] = *d.AttributeName + " " + string(d.AttributeType)
	}
	slices.Sort(out)
	return out
}

func refusedCreation(t *T) {
	rows := map[string]func(*dynamodb.CreateTableInput){
		"short name": func(in *dynamodb.CreateTableInput) { in.TableName = aws.String("ab") },
		"odd name":   func(in *dynamodb.CreateTableInput) { in.TableName = aws.String("a b c") },
		"unused definition": func(in *dynamodb.CreateTableInput) {
			in.AttributeDefinitions = attributes("leaseKey", "S", "other", "S")
		},
		"missing definition": func(in *dynamodb.CreateTableInput) { in.AttributeDefinitions = attributes("other", "S") },
		"no capacity":        func(in *dynamodb.CreateTableInput) { in.BillingMode = types.BillingModeProvisioned },
		"capacity on demand": func(in *dynamodb.CreateTableInput) {
			in.ProvisionedThroughput = &types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(1), WriteCapacityUnits: aws.Int64(1)}
		},
		"empty list of indexes": func(in *dynamodb.CreateTableInput) { in.GlobalSecondaryIndexes = []types.GlobalSecondaryIndex{} },
		"two indexes of a name": func(in *dynamodb.CreateTableInput) {
			index := t.indexed().GlobalSecondaryIndexes[0]
			in.AttributeDefinitions = attributes("leaseKey", "S", "leaseOwner", "S")
			in.GlobalSecondaryIndexes = []types.GlobalSecondaryIndex{index, index}
		},
	}
	for name, spoil := range sorted(rows) {
		t.Run(name, func(t *T) {
			in := t.leases()
			spoil(in)
			_, err := t.dynamodb.CreateTable(t.ctx, in)
			t.Refused("ValidationException", err)
		})
	}
}

func unknownTable(t *T) {
	unknown := aws.String(t.Unused())
	key := lease("a")
	rows := map[string]func() error{
		"DescribeTable": func() error {
			_, err := t.dynamodb.DescribeTable(t.ctx, &dynamodb.DescribeTableInput{TableName: unknown})
			return err
		},
		"DeleteTable": func() error {
			_, err := t.dynamodb.DeleteTable(t.ctx, &dynamodb.DeleteTableInput{TableName: unknown})
			return err
		},
		"UpdateTable": func() error {
			_, err := t.dynamodb.UpdateTable(t.ctx, &dynamodb.UpdateTableInput{TableName: unknown, DeletionProtectionEnabled: aws.Bool(true)})
			return err
		},
		"GetItem": func() error {
			_, err := t.dynamodb.GetItem(t.ctx, &dynamodb.GetItemInput{TableName: unknown, Key: key})
			return err
		},
		"PutItem": func() error {
			_, err := t.dynamodb.PutItem(t.ctx, &dynamodb.PutItemInput{TableName: unknown, Item: key})
			return err
		},
		"UpdateItem": func() error {
			_, err := t.dynamodb.UpdateItem(t.ctx, &dynamodb.UpdateItemInput{TableName: unknown, Key: key})
			return err
		},
		"DeleteItem": func() error {
			_, err := t.dynamodb.DeleteItem(t.ctx, &dynamodb.DeleteItemInput{TableName: unknown, Key: key})
			return err
		},
		"Scan": func() error {
			_, err := t.dynamodb.Scan(t.ctx, &dynamodb.ScanInput{TableName: unknown})
			return err
		},
		"Query": func() error {
			_, err := t.dynamodb.Query(t.ctx, &dynamodb.QueryInput{TableName: unknown, IndexName: aws.String(ownerIndex),
				KeyConditionExpression: aws.String("leaseOwner = :o"), ExpressionAttributeValues: item{":o": str("A")}})
			return err
		},
		"BatchGetItem": func() error {
			_, err := t.dynamodb.BatchGetItem(t.ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{*unknown: {Keys: []item{key}}}})
			return err
		},
		"BatchWriteItem": func() error {
			_, err := t.dynamodb.BatchWriteItem(t.ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{*unknown: {{PutRequest: &types.PutRequest{Item: key}}}}})
			return err
		},
		"TransactWriteItems": func() error {
			_, err := t.dynamodb.TransactWriteItems(t.ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{{Put: &types.Put{TableName: unknown, Item: key}}}})
			return err
		},
		"ListTagsOfResource": func() error {
			_, err := t.dynamodb.ListTagsOfResource(t.ctx, &dynamodb.ListTagsOfResourceInput{ResourceArn: aws.String("arn:aws:dynamodb:us-east-1:" + account + ":table/" + *unknown)})
			return err
		},
	}
	for name, call := range sorted(rows) {
		t.Run(name, func(t *T) { t.Refused("ResourceNotFoundException", call()) })
	}
	t.Run("UpdateContinuousBackups", func(t *T) {
		_, err := t.dynamodb.UpdateContinuousBackups(t.ctx, &dynamodb.UpdateContinuousBackupsInput{TableName: unknown,
			PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(true)}})
		t.Refused("TableNotFoundException", err)
	})
	t.Run("DescribeContinuousBackups", func(t *T) {
		_, err := t.dynamodb.DescribeContinuousBackups(t.ctx, &dynamodb.DescribeContinuousBackupsInput{TableName: unknown})
		t.Refused("TableNotFoundException", err)
	})
}

func tableDeletion(t *T) {
	in := t.leases()
	tb := t.create(in)
	t.put(tb, lease("a"))
	before := t.describe(tb)
	out, err := t.dynamodb.DeleteTable(t.ctx, &dynamodb.DeleteTableInput{TableName: tb.name})
	t.OK(err)
	t.Run("answer", func(t *T) {
		t.Equal(types.TableStatusDeleting, out.TableDescription.TableStatus)
		t.Equal(0, len(out.TableDescription.KeySchema), "keys told")
	})
	t.Run("again", func(t *T) {
		_, err := t.dynamodb.DeleteTable(t.ctx, &dynamodb.DeleteTableInput{TableName: tb.name})
		t.Refused("ResourceInUseException", err)
	})
	t.Run("ends", func(t *T) {
		t.Await("table gone", func() bool {
			_, err := t.dynamodb.DescribeTable(t.ctx, &dynamodb.DescribeTableInput{TableName: tb.name})
			gone := (*types.ResourceNotFoundException)(nil)
			return errors.As(err, &gone)
		})
	})
	t.Run("the name is free", func(t *T) {
		again := t.create(in)
		after := t.describe(again)
		t.Equal(*before.TableArn, *after.TableArn)
		t.True(*before.TableId != *after.TableId, "another table has another id")
		t.Equal("none", t.get(again, lease("a")))
	})
}

func tableList(t *T) {
	want := map[string]bool{}
	for range 3 {
		want[*t.create(t.leases()).name] = true
	}
	var from *string
	for range 1000 {
		out, err := t.dynamodb.ListTables(t.ctx, &dynamodb.ListTablesInput{Limit: aws.Int32(2), ExclusiveStartTableName: from})
		t.OK(err)
		t.True(len(out.TableNames) <= 2, "a page holds no more than asked for")
		for _, name := range out.TableNames {
			delete(want, name)
		}
		if from = out.LastEvaluatedTableName; from == nil {
			break
		}
		t.Equal(out.TableNames[len(out.TableNames)-1], *from, "last name")
	}
	t.Equal(0, len(want), "tables not listed")
	_, err := t.dynamodb.ListTables(t.ctx, &dynamodb.ListTablesInput{Limit: aws.Int32(101)})
	t.Refused("ValidationException", err, "101 a page")
}

func billingMode(t *T) {
	tb := t.create(t.leases())
	t.Run("nothing to do", func(t *T) {
		_, err := t.dynamodb.UpdateTable(t.ctx, &dynamodb.UpdateTableInput{TableName: tb.name})
		t.Refused("ValidationException", err)
	})
	t.Run("nothing to do on an unknown table", func(t *T) {
		_, err := t.dynamodb.UpdateTable(t.ctx, &dynamodb.UpdateTableInput{TableName: aws.String(t.Unused())})
		t.Refused("ValidationException", err)
	})
	t.Run("on demand as it is", func(t *T) {
		_, err := t.dynamodb.UpdateTable(t.ctx, &dynamodb.UpdateTableInput{TableName: tb.name, BillingMode: types.BillingModePayPerRequest})
		t.OK(err)
	})
	t.Run("to provisioned", func(t *T) {
		tb := t.create(t.leases())
		out, err := t.dynamodb.UpdateTable(t.ctx, &dynamodb.UpdateTableInput{TableName: tb.name, BillingMode: types.BillingModeProvisioned,
			ProvisionedThroughput: &types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(10), WriteCapacityUnits: aws.Int64(10)}})
		t.OK(err)
		t.Equal(types.TableStatusUpdating, out.TableDescription.TableStatus)
		t.Await("table ACTIVE", func() bool { return t.describe(tb).TableStatus == types.TableStatusActive })
		d := t.describe(tb)
		t.Equal("10 10 0", throughput(d.ProvisionedThroughput))
		t.True(d.BillingModeSummary != nil && d.BillingModeSummary.BillingMode == types.BillingModeProvisioned, "told, since it was otherwise once")
	})
}

func deletionProtection(t *T) {
	in := t.leases()
	in.DeletionProtectionEnabled = aws.Bool(true)
	tb := t.create(in)
	t.Run("told", func(t *T) { t.Equal(true, aws.ToBool(t.describe(tb).DeletionProtectionEnabled)) })
	t.Run("protects", func(t *T) {
		_, err := t.dynamodb.DeleteTable(t.ctx, &dynamodb.DeleteTableInput{TableName: tb.name})
		t.Refused("ValidationException", err)
		t.Equal(types.TableStatusActive, t.describe(tb).TableStatus)
	})
	t.Run("not beside another change", func(t *T) {
		_, err := t.dynamodb.UpdateTable(t.ctx, &dynamodb.UpdateTableInput{TableName: tb.name, DeletionProtectionEnabled: aws.Bool(true), BillingMode: types.BillingModePayPerRequest})
		t.Refused("ValidationException", err)
	})
	t.Run("off", func(t *T) {
		out, err := t.dynamodb.UpdateTable(t.ctx, &dynamodb.UpdateTableInput{TableName: tb.name, DeletionProtectionEnabled: aws.Bool(false)})
		t.OK(err)
		t.Equal(types.TableStatusActive, out.TableDescription.TableStatus, "status stays")
		_, err = t.dynamodb.DeleteTable(t.ctx, &dynamodb.DeleteTableInput{TableName: tb.name})
		t.OK(err)
	})
}

// A change is followed by 15 s in which the setting cannot be touched.
func deletionProtectionPause(t *T) {
	tb := t.create(t.leases())
	set := func(on bool) error {
		_, err := t.dynamodb.UpdateTable(t.ctx, &dynamodb.UpdateTableInput{TableName: tb.name, DeletionProtectionEnabled: &on})
		return err
	}
	t.OK(set(false), "the value it has")
	t.OK(set(false), "the value it has, again")
	t.OK(set(true), "change")
	t.Refused("ThrottlingException", set(true), "at once")
	time.Sleep(14 * time.Second)
	t.Refused("ThrottlingException", set(false), "after 14 s")
	time.Sleep(2 * time.Second)
	t.OK(set(false), "after 16 s")
}

func backups(t *T) {
	tb := t.create(t.leases())
	state := func() types.PointInTimeRecoveryStatus {
		out, err := t.dynamodb.DescribeContinuousBackups(t.ctx, &dynamodb.DescribeContinuousBackupsInput{TableName: tb.name})
		t.OK(err)
		if p := out.ContinuousBackupsDescription.PointInTimeRecoveryDescription; p != nil {
			return p.PointInTimeRecoveryStatus
		}
		return "none"
	}
	enable := func() (*dynamodb.UpdateContinuousBackupsOutput, error) {
		return t.dynamodb.UpdateContinuousBackups(t.ctx, &dynamodb.UpdateContinuousBackupsInput{TableName: tb.name,
			PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(true)}})
	}
	t.Run("off at first", func(t *T) { t.Equal(types.PointInTimeRecoveryStatusDisabled, state()) })
	t.Run("not available at once", func(t *T) {
		_, err := enable()
		t.Refused("ContinuousBackupsUnavailableException", err)
	})
	t.Run("on", func(t *T) {
		t.Await("backups available", func() bool {
			out, err := enable()
			if codeOf(err) == "ContinuousBackupsUnavailableException" {
				return false
			}
			t.OK(err)
			d := out.ContinuousBackupsDescription
			t.Equal(types.ContinuousBackupsStatusEnabled, d.ContinuousBackupsStatus)
			t.True(d.PointInTimeRecoveryDescription.EarliestRestorableDateTime != nil, "says back to when")
			return true
		})
		t.Equal(types.PointInTimeRecoveryStatusEnabled, state())
		_, err := enable()
		t.OK(err, "again")
	})
}

func tableTags(t *T) {
	in := t.leases()
	tag := func(key, value string) types.Tag { return types.Tag{Key: &key, Value: &value} }
	in.Tags = []types.Tag{tag("team", "orders")}
	tb := t.create(in)
	arn := t.describe(tb).TableArn
	tags := func() map[string]string {
		out, err := t.dynamodb.ListTagsOfResource(t.ctx, &dynamodb.ListTagsOfResourceInput{ResourceArn: arn})
		t.OK(err)
		m := map[string]string{}
		for _, tag := range out.Tags {
			m[*tag.Key] = *tag.Value
		}
		return m
	}
	shows := func(want string) { t.Await("tags "+want, func() bool { return fmt.Sprint(tags()) == want }) }
	t.Run("from the start", func(t *T) { t.Equal("map[team:orders]", fmt.Sprint(tags())) })
	t.Run("more", func(t *T) {
		_, err := t.dynamodb.TagResource(t.ctx, &dynamodb.TagResourceInput{ResourceArn: arn, Tags: []types.Tag{tag("team", "sales"), tag("env", "")}})
		t.OK(err)
		shows("map[env: team:sales]")
	})
	t.Run("fewer", func(t *T) {
		_, err := t.dynamodb.UntagResource(t.ctx, &dynamodb.UntagResourceInput{ResourceArn: arn, TagKeys: []string{"team", "nothing"}})
		t.OK(err)
		shows("map[env:]")
	})
	t.Run("bare name", func(t *T) {
		_, err := t.dynamodb.ListTagsOfResource(t.ctx, &dynamodb.ListTagsOfResourceInput{ResourceArn: tb.name})
		t.Refused("ValidationException", err)
	})
}
