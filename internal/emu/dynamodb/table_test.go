package dynamodb

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/wire"
)

// look is what DescribeTable says of states: the table's, then each index's with
// its Backfilling member if it has one.
func (c client) look(t *testing.T, table string) string {
	t.Helper()
	d := c.ok(t, "DescribeTable", `{"TableName":%q}`, table)
	return lookOf(t, d, "Table")
}

func lookOf(t *testing.T, answer, member string) string {
	t.Helper()
	text := fmt.Sprint(get(t, answer, member+".TableStatus"))
	for i := 0; ; i++ {
		at := fmt.Sprintf("%s.GlobalSecondaryIndexes.%d.", member, i)
		name := get(t, answer, at+"IndexName")
		if name == nil {
			return text
		}
		text += fmt.Sprintf(" %s:%s", name, get(t, answer, at+"IndexStatus"))
		if b := get(t, answer, at+"Backfilling"); b != nil {
			text += fmt.Sprintf("/%v", b)
		}
	}
}

func TestCreateTable(t *testing.T) {
	t.Run("CREATING, then ACTIVE aws-dynamodb#24", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			timing := RealTiming()
			c := newClient(Config{Timing: &timing})
			c.createLeases(t, "leases", false)
			assert.Equal(t, "CREATING", c.look(t, "leases"))

			for op, body := range map[string]string{
				"GetItem":            `{"TableName":"leases","Key":{"leaseKey":{"S":"a"}}}`,
				"PutItem":            `{"TableName":"leases","Item":{"leaseKey":{"S":"a"}}}`,
				"UpdateItem":         `{"TableName":"leases","Key":{"leaseKey":{"S":"a"}}}`,
				"DeleteItem":         `{"TableName":"leases","Key":{"leaseKey":{"S":"a"}}}`,
				"Scan":               `{"TableName":"leases"}`,
				"Query":              `{"TableName":"leases","KeyConditionExpression":"leaseKey = :k","ExpressionAttributeValues":{":k":{"S":"a"}}}`,
				"BatchGetItem":       `{"RequestItems":{"leases":{"Keys":[{"leaseKey":{"S":"a"}}]}}}`,
				"BatchWriteItem":     `{"RequestItems":{"leases":[{"DeleteRequest":{"Key":{"leaseKey":{"S":"a"}}}}]}}`,
				"TransactWriteItems": `{"TransactItems":[{"Delete":{"TableName":"leases","Key":{"leaseKey":{"S":"a"}}}}]}`,
				"TransactGetItems":   `{"TransactItems":[{"Get":{"TableName":"leases","Key":{"leaseKey":{"S":"a"}}}}]}`,
			} {
				body := c.refused(t, notFound, "", op, body)
				assert.JSONEq(t, `{"__type":"com.amazonaws.dynamodb.v20120810#ResourceNotFoundException","message":"Requested resource not found"}`, body)
			}
			again := strings.ReplaceAll(`{"TableName":"leases","BillingMode":"PAY_PER_REQUEST","KeySchema":[{"AttributeName":"x","KeyType":"HASH"}],"AttributeDefinitions":[{"AttributeName":"x","AttributeType":"S"}]}`, "\n", "")
			c.refused(t, resInUse, "Attempt to change a resource which is still in use: Table is being created: leases", "CreateTable", again)
			c.refused(t, resInUse, "Table is being created: leases", "DeleteTable", `{"TableName":"leases"}`)
			c.refused(t, resInUse, "Table is being created: leases", "UpdateTable", `{"TableName":"leases","DeletionProtectionEnabled":true}`)
			c.refused(t, validation, "", "CreateTable", `{"TableName":"leases","KeySchema":[]}`)

			time.Sleep(timing.TableCreate - 1)
			assert.Equal(t, "CREATING", c.look(t, "leases"))
			time.Sleep(time.Nanosecond)
			assert.Equal(t, "ACTIVE", c.look(t, "leases"))
			assert.Empty(t, c.item(t, "leases", "a"))
			c.refused(t, resInUse, "Table already exists: leases", "CreateTable", again)
		})
	})
	t.Run("unseen for a moment", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			timing := Timing{TableUnseen: time.Second}
			c := newClient(Config{Timing: &timing})
			c.createLeases(t, "leases", false)
			c.refused(t, notFound, "Requested resource not found: Table: leases not found", "DescribeTable", `{"TableName":"leases"}`)
			time.Sleep(time.Second)
			assert.Equal(t, "ACTIVE", c.look(t, "leases"))
		})
	})
	t.Run("the answer tells of the beginning even when nothing takes time", func(t *testing.T) {
		c := newClient(Config{Timing: atOnce})
		d := c.ok(t, "CreateTable", `{"TableName":"ttt","BillingMode":"PAY_PER_REQUEST","KeySchema":[{"AttributeName":"x","KeyType":"HASH"}],"AttributeDefinitions":[{"AttributeName":"x","AttributeType":"S"}]}`)
		assert.Equal(t, "CREATING", lookOf(t, d, "TableDescription"))
		assert.Equal(t, "ACTIVE", c.look(t, "ttt"))
	})
	t.Run("accounts and regions are worlds of their own", func(t *testing.T) {
		c := newClient(Config{Timing: atOnce})
		c.createLeases(t, "leases", false)
		other := c
		other.Region = "eu-west-1"
		other.refused(t, notFound, "", "DescribeTable", `{"TableName":"leases"}`)
		other.refused(t, notFound, "", "DescribeTable", `{"TableName":"arn:aws:dynamodb:us-east-1:123456789012:table/leases"}`)
		c.refused(t, notFound, "", "DescribeTable", `{"TableName":"arn:aws:dynamodb:eu-west-1:123456789012:table/leases"}`)
		c.ok(t, "DescribeTable", `{"TableName":"arn:aws:dynamodb:us-east-1:123456789012:table/leases"}`)
		c.ok(t, "Scan", `{"TableName":"arn:aws:dynamodb:us-east-1:123456789012:table/leases"}`)
	})
}

func TestCreateTableRefusals(t *testing.T) {
	const keyed = `"KeySchema":[{"AttributeName":"k","KeyType":"HASH"}]`
	const defined = `"AttributeDefinitions":[{"AttributeName":"k","AttributeType":"S"}]`
	const onDemand = `"BillingMode":"PAY_PER_REQUEST"`
	index := func(name, more string) string {
		return fmt.Sprintf(`{"IndexName":%q,"KeySchema":[{"AttributeName":"k","KeyType":"HASH"}],"Projection":{"ProjectionType":"KEYS_ONLY"}%s}`, name, more)
	}
	var tags []string
	for i := range 51 {
		tags = append(tags, fmt.Sprintf(`{"Key":"k%d","Value":"v"}`, i))
	}
	tests := []struct{ name, body, text string }{
		{"everything missing", `{}`, "3 validation errors detected: Value null at 'tableName' failed to satisfy constraint: Member must not be null; "},
		{"short name", `{"TableName":"ab",` + keyed + `,` + defined + `}`, "1 validation error detected: Value 'ab' at 'tableName' failed to satisfy constraint: Member must have length greater than or equal to 3"},
		{"bad name", `{"TableName":"a b c",` + keyed + `,` + defined + `}`, "regular expression pattern"},
		{"no capacity", `{"TableName":"ttt",` + keyed + `,` + defined + `}`, "ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED"},
		{"capacity on demand", `{"TableName":"ttt",` + onDemand + `,"ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":1},` + keyed + `,` + defined + `}`, "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST"},
		{"key not defined", `{"TableName":"ttt",` + onDemand + `,` + keyed + `,"AttributeDefinitions":[{"AttributeName":"x","AttributeType":"S"}]}`, "Some index key attributes are not defined in AttributeDefinitions"},
		{"definition not used", `{"TableName":"ttt",` + onDemand + `,` + keyed + `,"AttributeDefinitions":[{"AttributeName":"k","AttributeType":"S"},{"AttributeName":"x","AttributeType":"S"}]}`, "Number of attributes in KeySchema does not exactly match number of attributes defined in AttributeDefinitions"},
		{"definition not used, with index", `{"TableName":"ttt",` + onDemand + `,` + keyed + `,"AttributeDefinitions":[{"AttributeName":"k","AttributeType":"S"},{"AttributeName":"x","AttributeType":"S"}],"GlobalSecondaryIndexes":[` + index("iii", "") + `]}`, "Some AttributeDefinitions are not used"},
		{"empty list of indexes", `{"TableName":"ttt",` + onDemand + `,` + keyed + `,` + defined + `,"GlobalSecondaryIndexes":[]}`, "List of GlobalSecondaryIndexes is empty"},
		{"index twice", `{"TableName":"ttt",` + onDemand + `,` + keyed + `,` + defined + `,"GlobalSecondaryIndexes":[` + index("iii", "") + `,` + index("iii", "") + `]}`, "Duplicate index name: iii"},
		{"index capacity on demand", `{"TableName":"ttt",` + onDemand + `,` + keyed + `,` + defined + `,"GlobalSecondaryIndexes":[` + index("iii", `,"ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":1}`) + `]}`, "Neither ReadCapacityUnits"},
		{"range first", `{"TableName":"ttt",` + onDemand + `,"KeySchema":[{"AttributeName":"k","KeyType":"RANGE"}],` + defined + `}`, "The first KeySchemaElement is not a HASH key type"},
		{"51 tags", `{"TableName":"ttt",` + onDemand + `,` + keyed + `,` + defined + `,"Tags":[` + strings.Join(tags, ",") + `]}`, "tags"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(Config{Timing: atOnce})
			body := c.refused(t, validation, tt.text, "CreateTable", tt.body)
			assert.Equal(t, "com.amazon.coral.validate#ValidationException", get(t, body, "__type"))
			c.answers(t, `{"TableNames":[]}`, "ListTables", `{}`)
		})
	}
	t.Run("an empty list of tags is accepted", func(t *testing.T) {
		c := newClient(Config{Timing: atOnce})
		c.ok(t, "CreateTable", `{"TableName":"ttt",`+onDemand+`,`+keyed+`,`+defined+`,"Tags":[]}`)
	})
}

func TestDeleteTable(t *testing.T) {
	t.Run("DELETING, gone, and the name free aws-dynamodb#41", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			timing := RealTiming()
			c := newClient(Config{Timing: &timing})
			c.ok(t, "CreateTable", `{"TableName":"ttt","BillingMode":"PAY_PER_REQUEST","KeySchema":[{"AttributeName":"leaseKey","KeyType":"HASH"}],"AttributeDefinitions":[{"AttributeName":"leaseKey","AttributeType":"S"}],"Tags":[{"Key":"a","Value":"b"}]}`)
			time.Sleep(timing.TableCreate)
			c.put(t, "ttt", `"leaseKey":{"S":"a"}`)
			before := c.ok(t, "DescribeTable", `{"TableName":"ttt"}`)
			arn := get(t, before, "Table.TableArn").(string)
			assert.Equal(t, "arn:aws:dynamodb:us-east-1:123456789012:table/ttt", arn)

			d := c.ok(t, "DeleteTable", `{"TableName":"ttt"}`)
			assert.Equal(t, "DELETING", lookOf(t, d, "TableDescription"))
			for _, member := range []string{"KeySchema", "AttributeDefinitions", "GlobalSecondaryIndexes"} {
				assert.Nil(t, get(t, d, "TableDescription."+member), member)
			}
			c.refused(t, resInUse, "Table is being deleted: ttt", "DeleteTable", `{"TableName":"ttt"}`)
			c.refused(t, resInUse, "Table is being deleted: ttt", "UpdateTable", `{"TableName":"ttt","DeletionProtectionEnabled":true}`)
			c.refused(t, resInUse, "Table is being deleted: ttt", "TagResource", `{"ResourceArn":%q,"Tags":[{"Key":"k","Value":"v"}]}`, arn)
			c.refused(t, resInUse, "Table already exists: ttt", "CreateTable", `{"TableName":"ttt","BillingMode":"PAY_PER_REQUEST","KeySchema":[{"AttributeName":"leaseKey","KeyType":"HASH"}],"AttributeDefinitions":[{"AttributeName":"leaseKey","AttributeType":"S"}]}`)
			c.answers(t, `{"TableNames":["ttt"]}`, "ListTables", `{}`)

			time.Sleep(timing.TableDelete)
			c.refused(t, notFound, "Requested resource not found: Table: ttt not found", "DeleteTable", `{"TableName":"ttt"}`)
			c.answers(t, `{"TableNames":[]}`, "ListTables", `{}`)
			c.createLeases(t, "ttt", false)
			time.Sleep(timing.TableCreate)
			after := c.ok(t, "DescribeTable", `{"TableName":"ttt"}`)
			assert.Equal(t, arn, get(t, after, "Table.TableArn"))
			assert.NotEqual(t, get(t, before, "Table.TableId"), get(t, after, "Table.TableId"))
			assert.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, get(t, after, "Table.TableId"))
			c.answers(t, `{"Tags":[]}`, "ListTagsOfResource", `{"ResourceArn":%q}`, arn)
			assert.Empty(t, c.item(t, "ttt", "a"))
		})
	})
	t.Run("protected aws-dynamodb#30", func(t *testing.T) {
		c := newClient(Config{Timing: atOnce})
		c.ok(t, "CreateTable", `{"TableName":"ttt","BillingMode":"PAY_PER_REQUEST","DeletionProtectionEnabled":true,"KeySchema":[{"AttributeName":"k","KeyType":"HASH"}],"AttributeDefinitions":[{"AttributeName":"k","AttributeType":"S"}]}`)
		assert.Equal(t, true, get(t, c.ok(t, "DescribeTable", `{"TableName":"ttt"}`), "Table.DeletionProtectionEnabled"))
		c.refused(t, validation, "Resource cannot be deleted as it is currently protected against deletion. Disable deletion protection first.", "DeleteTable", `{"TableName":"ttt"}`)
		d := c.ok(t, "UpdateTable", `{"TableName":"ttt","DeletionProtectionEnabled":false}`)
		assert.Equal(t, "ACTIVE", lookOf(t, d, "TableDescription"))
		c.ok(t, "DeleteTable", `{"TableName":"ttt"}`)
	})
}

// aws-dynamodb#44
func TestDeletionProtectionHasAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(Config{})
		c.createLeases(t, "leases", false)
		time.Sleep(time.Second)
		set := func(on bool) string { return fmt.Sprintf(`{"TableName":"leases","DeletionProtectionEnabled":%v}`, on) }
		for range 3 { // the value it has
			c.ok(t, "UpdateTable", set(false))
		}
		c.ok(t, "UpdateTable", set(true))
		time.Sleep(15*time.Second - 1)
		for _, on := range []bool{true, false} {
			body := c.refused(t, "ThrottlingException", "Deletion protection setting for table leases modified within the previous 15000 milliseconds. Please try again after ", "UpdateTable", set(on))
			assert.Equal(t, "com.amazon.coral.availability#ThrottlingException", get(t, body, "__type"))
		}
		time.Sleep(time.Nanosecond)
		c.ok(t, "UpdateTable", set(true))
		c.ok(t, "UpdateTable", set(false))

		time.Sleep(15 * time.Second)
		c.refused(t, validation, "DeletionProtection modification must be the only operation in the request", "UpdateTable", `{"TableName":"leases","DeletionProtectionEnabled":true,
			"AttributeDefinitions":[{"AttributeName":"leaseKey","AttributeType":"S"}],
			"GlobalSecondaryIndexUpdates":[{"Create":{"IndexName":"iii","KeySchema":[{"AttributeName":"leaseKey","KeyType":"HASH"}],"Projection":{"ProjectionType":"KEYS_ONLY"}}}]}`)
		assert.Equal(t, "ACTIVE", c.look(t, "leases"))
		assert.Equal(t, false, get(t, c.ok(t, "DescribeTable", `{"TableName":"leases"}`), "Table.DeletionProtectionEnabled"))

		// Admitted while an index is being built.
		c.ok(t, "UpdateTable", addIndex("leases", "owners", "leaseOwner"))
		assert.Equal(t, "UPDATING owners:CREATING/false", c.look(t, "leases"))
		c.ok(t, "UpdateTable", set(true))
	})
}

// addIndex is an UpdateTable that creates an index on one string attribute and
// leaseKey.
func addIndex(table, index, attribute string) string {
	return fmt.Sprintf(`{"TableName":%q,"AttributeDefinitions":[{"AttributeName":%q,"AttributeType":"S"},{"AttributeName":"leaseKey","AttributeType":"S"}],
		"GlobalSecondaryIndexUpdates":[{"Create":{"IndexName":%q,"KeySchema":[{"AttributeName":%q,"KeyType":"HASH"},{"AttributeName":"leaseKey","KeyType":"RANGE"}],"Projection":{"ProjectionType":"KEYS_ONLY"}}}]}`, table, attribute, index, attribute)
}

func dropIndex(table, index string) string {
	return fmt.Sprintf(`{"TableName":%q,"GlobalSecondaryIndexUpdates":[{"Delete":{"IndexName":%q}}]}`, table, index)
}

// aws-dynamodb#29
func TestDescribeTableFields(t *testing.T) {
	t.Run("provisioned", func(t *testing.T) {
		c := newClient(Config{Timing: atOnce})
		c.ok(t, "CreateTable", `{"TableName":"ttt","ProvisionedThroughput":{"ReadCapacityUnits":5,"WriteCapacityUnits":6},"KeySchema":[{"AttributeName":"k","KeyType":"HASH"}],"AttributeDefinitions":[{"AttributeName":"k","AttributeType":"S"}]}`)
		d := c.ok(t, "DescribeTable", `{"TableName":"ttt"}`)
		assert.Nil(t, get(t, d, "Table.BillingModeSummary"))
		assert.Equal(t, map[string]any{"ReadCapacityUnits": 5.0, "WriteCapacityUnits": 6.0, "NumberOfDecreasesToday": 0.0}, get(t, d, "Table.ProvisionedThroughput"))
	})
	t.Run("on demand", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newClient(Config{})
			d := c.ok(t, "CreateTable", `{"TableName":"leases","BillingMode":"PAY_PER_REQUEST","KeySchema":[{"AttributeName":"leaseKey","KeyType":"HASH"}],"AttributeDefinitions":[{"AttributeName":"leaseKey","AttributeType":"S"}]}`)
			assert.Equal(t, map[string]any{"BillingMode": "PAY_PER_REQUEST"}, get(t, d, "TableDescription.BillingModeSummary"))
			assert.Nil(t, get(t, d, "TableDescription.WarmThroughput"))
			time.Sleep(time.Second)
			d = c.ok(t, "DescribeTable", `{"TableName":"leases"}`)
			assert.NotNil(t, get(t, d, "Table.BillingModeSummary.LastUpdateToPayPerRequestDateTime"))
			assert.Equal(t, map[string]any{"ReadUnitsPerSecond": 12000.0, "WriteUnitsPerSecond": 4000.0, "Status": "ACTIVE"}, get(t, d, "Table.WarmThroughput"))
			assert.Equal(t, map[string]any{"ReadCapacityUnits": 0.0, "WriteCapacityUnits": 0.0, "NumberOfDecreasesToday": 0.0}, get(t, d, "Table.ProvisionedThroughput"))
			assert.Equal(t, false, get(t, d, "Table.DeletionProtectionEnabled"))
			assert.EqualValues(t, 946684800, get(t, d, "Table.CreationDateTime"))
			var members map[string]any = get(t, d, "Table").(map[string]any)
			assert.NotContains(t, members, "GlobalSecondaryIndexes")
			assert.NotContains(t, members, "LocalSecondaryIndexes")

			for i := range 3 {
				c.put(t, "leases", `"leaseKey":{"S":"s%d"},"n":{"N":"12"}`, i)
			}
			time.Sleep(5 * time.Hour)
			d = c.ok(t, "DescribeTable", `{"TableName":"leases"}`)
			assert.EqualValues(t, 0, get(t, d, "Table.ItemCount"))
			time.Sleep(time.Hour)
			c.put(t, "leases", `"leaseKey":{"S":"after"}`)
			d = c.ok(t, "DescribeTable", `{"TableName":"leases"}`)
			assert.EqualValues(t, 3, get(t, d, "Table.ItemCount"))
			assert.EqualValues(t, 3*(8+2+1+2), get(t, d, "Table.TableSizeBytes"))
		})
	})
	t.Run("change of billing mode and capacity", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			timing := RealTiming()
			c := newClient(Config{Timing: &timing})
			c.createLeases(t, "leases", false)
			time.Sleep(time.Minute)
			same := `{"TableName":"leases","BillingMode":"PAY_PER_REQUEST"}`
			assert.Equal(t, "UPDATING", lookOf(t, c.ok(t, "UpdateTable", same), "TableDescription"))
			assert.Equal(t, "ACTIVE", c.look(t, "leases"))

			c.refused(t, validation, "ReadCapacityUnits and WriteCapacityUnits must both be specified", "UpdateTable", `{"TableName":"leases","BillingMode":"PROVISIONED"}`)
			provision := `{"TableName":"leases","BillingMode":"PROVISIONED","ProvisionedThroughput":{"ReadCapacityUnits":5,"WriteCapacityUnits":6}}`
			assert.Equal(t, "UPDATING", lookOf(t, c.ok(t, "UpdateTable", provision), "TableDescription"))
			assert.Equal(t, "UPDATING", c.look(t, "leases"))
			c.refused(t, resInUse, "Attempt to change a resource which is still in use: Table IOPS are currently being updated. Table: leases", "UpdateTable", provision)
			c.refused(t, resInUse, "Can't create or delete indexes while table IOPS are being updated. Table: leases", "UpdateTable", addIndex("leases", "owners", "leaseOwner"))
			c.refused(t, resInUse, "Table: leases is in the process of being updated.", "DeleteTable", `{"TableName":"leases"}`)
			c.ok(t, "TagResource", `{"ResourceArn":"arn:aws:dynamodb:us-east-1:123456789012:table/leases","Tags":[{"Key":"a","Value":"b"}]}`)
			c.put(t, "leases", `"leaseKey":{"S":"a"}`)
			time.Sleep(timing.Throughput)
			assert.Equal(t, "ACTIVE", c.look(t, "leases"))
			d := c.ok(t, "DescribeTable", `{"TableName":"leases"}`)
			assert.Equal(t, "PROVISIONED", get(t, d, "Table.BillingModeSummary.BillingMode"))
			c.refused(t, validation, "The requested value equals the current value", "UpdateTable", `{"TableName":"leases","ProvisionedThroughput":{"ReadCapacityUnits":5,"WriteCapacityUnits":6}}`)
			c.ok(t, "UpdateTable", `{"TableName":"leases","ProvisionedThroughput":{"ReadCapacityUnits":7,"WriteCapacityUnits":6}}`)
		})
	})
}

// aws-dynamodb#31
func TestContinuousBackups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timing := RealTiming()
		c := newClient(Config{Timing: &timing})
		enable := `{"TableName":"leases","PointInTimeRecoverySpecification":{"PointInTimeRecoveryEnabled":true}}`
		unknown := func() {
			t.Helper()
			for op, body := range map[string]string{"UpdateContinuousBackups": enable, "DescribeContinuousBackups": `{"TableName":"leases"}`} {
				body := c.refused(t, "TableNotFoundException", "Table not found: leases", op, body)
				assert.Equal(t, "com.amazonaws.dynamodb.v20120810#TableNotFoundException", get(t, body, "__type"))
			}
		}
		statuses := func(d string) []any {
			at := "ContinuousBackupsDescription."
			return []any{get(t, d, at+"ContinuousBackupsStatus"), get(t, d, at+"PointInTimeRecoveryDescription.PointInTimeRecoveryStatus")}
		}
		unknown()
		c.createLeases(t, "leases", false)
		unknown()
		time.Sleep(timing.BackupsUnknown)
		unavailable := func() {
			t.Helper()
			c.refused(t, "ContinuousBackupsUnavailableException", "Backups are being enabled for the table: leases. Please retry later", "UpdateContinuousBackups", enable)
			assert.Equal(t, []any{"DISABLED", "DISABLED"}, statuses(c.ok(t, "DescribeContinuousBackups", `{"TableName":"leases"}`)))
		}
		unavailable()
		time.Sleep(timing.TableCreate - timing.BackupsUnknown)
		assert.Equal(t, "ACTIVE", c.look(t, "leases"))
		unavailable()
		time.Sleep(timing.BackupsUnavailable)
		assert.Equal(t, []any{"ENABLED", "DISABLED"}, statuses(c.ok(t, "DescribeContinuousBackups", `{"TableName":"leases"}`)))
		for range 2 {
			assert.Equal(t, []any{"ENABLED", "ENABLED"}, statuses(c.ok(t, "UpdateContinuousBackups", enable)))
			time.Sleep(time.Hour)
		}
		d := c.ok(t, "DescribeContinuousBackups", `{"TableName":"leases"}`)
		assert.Equal(t, []any{"ENABLED", "ENABLED"}, statuses(d))
		at := "ContinuousBackupsDescription.PointInTimeRecoveryDescription."
		assert.EqualValues(t, 2*3600, get(t, d, at+"LatestRestorableDateTime").(float64)-get(t, d, at+"EarliestRestorableDateTime").(float64))
	})
}

// aws-dynamodb#45
func TestTags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timing := RealTiming()
		c := newClient(Config{Timing: &timing})
		const arn = "arn:aws:dynamodb:us-east-1:123456789012:table/ttt"
		list := func(want string) {
			t.Helper()
			c.answers(t, want, "ListTagsOfResource", `{"ResourceArn":%q}`, arn)
		}
		tagAs := func(key, value string) string {
			return fmt.Sprintf(`{"ResourceArn":%q,"Tags":[{"Key":%q,"Value":%q}]}`, arn, key, value)
		}
		c.refused(t, notFound, "Requested resource not found: ResourceArn: "+arn+" not found", "ListTagsOfResource", `{"ResourceArn":%q}`, arn)
		c.ok(t, "CreateTable", `{"TableName":"ttt","BillingMode":"PAY_PER_REQUEST","KeySchema":[{"AttributeName":"k","KeyType":"HASH"}],"AttributeDefinitions":[{"AttributeName":"k","AttributeType":"S"}],"Tags":[{"Key":"a","Value":"1"}]}`)
		c.refused(t, notFound, "Requested resource not found: ResourceArn: "+arn+" not found", "TagResource", tagAs("b", "2"))
		time.Sleep(timing.TableCreate - time.Second)
		c.refused(t, resInUse, "", "TagResource", tagAs("b", "2"))
		time.Sleep(time.Second)
		list(`{"Tags":[{"Key":"a","Value":"1"}]}`)

		assert.Empty(t, c.ok(t, "TagResource", tagAs("b", "2")), "an empty body, not {}")
		list(`{"Tags":[{"Key":"a","Value":"1"}]}`)
		body := c.refused(t, limit, "Subscriber limit exceeded: Table tags are being updated: ttt", "TagResource", tagAs("c", "3"))
		assert.Equal(t, "com.amazonaws.dynamodb.v20120810#LimitExceededException", get(t, body, "__type"))
		c.refused(t, limit, "", "UntagResource", `{"ResourceArn":%q,"TagKeys":["a"]}`, arn)
		c.refused(t, resInUse, "", "DeleteTable", `{"TableName":"ttt"}`)
		c.ok(t, "TagResource", tagAs("b", "2"))
		c.ok(t, "UntagResource", `{"ResourceArn":%q,"TagKeys":["none"]}`, arn)

		time.Sleep(timing.TagsStale - 1)
		list(`{"Tags":[{"Key":"a","Value":"1"}]}`)
		time.Sleep(time.Nanosecond)
		list(`{"Tags":[{"Key":"a","Value":"1"},{"Key":"b","Value":"2"}]}`)
		assert.Empty(t, c.ok(t, "UntagResource", `{"ResourceArn":%q,"TagKeys":["a"]}`, arn))
		time.Sleep(timing.TagsStale)
		list(`{"Tags":[{"Key":"b","Value":"2"}]}`)

		c.refused(t, validation, "", "TagResource", `{"ResourceArn":%q,"Tags":[]}`, arn)
		c.refused(t, validation, "Invalid ResourceArn", "ListTagsOfResource", `{"ResourceArn":"ttt"}`)
		c.refused(t, validation, "Invalid ResourceArn", "ListTagsOfResource", `{"ResourceArn":%q}`, arn+"/index/iii")
		c.ok(t, "DeleteTable", `{"TableName":"ttt"}`)
	})
}

func TestListTables(t *testing.T) {
	c := newClient(Config{Timing: atOnce})
	for i := range 105 {
		c.createLeases(t, fmt.Sprintf("t%03d", i), false)
	}
	page := c.ok(t, "ListTables", `{}`)
	assert.Len(t, get(t, page, "TableNames"), 100)
	assert.Equal(t, "t099", get(t, page, "LastEvaluatedTableName"))
	c.answers(t, `{"TableNames":["t100","t101","t102","t103","t104"]}`, "ListTables", `{"ExclusiveStartTableName":"t099"}`)
	c.answers(t, `{"TableNames":["t100","t101"],"LastEvaluatedTableName":"t101"}`, "ListTables", `{"ExclusiveStartTableName":"t099x","Limit":2}`)
	c.refused(t, validation, "less than or equal to 100", "ListTables", `{"Limit":101}`)
}

func TestResourcesOfACall(t *testing.T) {
	s := New(Config{})
	tests := []struct {
		operation, body string
		want            []string
	}{
		{"GetItem", `{"TableName":"a-table"}`, []string{"a-table"}},
		{"Query", `{"TableName":"arn:aws:dynamodb:us-east-1:123456789012:table/a-table","IndexName":"x"}`, []string{"a-table"}},
		{"BatchGetItem", `{"RequestItems":{"bbb":{"Keys":[]},"aaa":{"Keys":[]}}}`, []string{"aaa", "bbb"}},
		{"BatchWriteItem", `{"RequestItems":{"aaa":[]}}`, []string{"aaa"}},
		{"TransactWriteItems", `{"TransactItems":[{"Put":{"TableName":"bbb"}},{"ConditionCheck":{"TableName":"aaa"}},{"Delete":{"TableName":"bbb"}}]}`, []string{"bbb", "aaa"}},
		{"TransactGetItems", `{"TransactItems":[{"Get":{"TableName":"bbb"}}]}`, []string{"bbb"}},
		{"ListTagsOfResource", `{"ResourceArn":"arn:aws:dynamodb:us-east-1:123456789012:table/a-table"}`, []string{"a-table"}},
		{"ListTables", `{}`, nil},
		{"GetItem", `{`, nil},
		{"NoSuchThing", `{}`, nil},
	}
	for _, tt := range tests {
		p := s.Prepare(&wire.Call{Operation: tt.operation, Codec: wire.JSON10, Body: []byte(tt.body)})
		assert.Equal(t, tt.want, p.Resources, "%s %s", tt.operation, tt.body)
	}
}

func TestRequestsThatAreNone(t *testing.T) {
	c := newClient(Config{Timing: atOnce})
	c.createLeases(t, "leases", false)
	tests := []struct{ operation, body, want string }{
		{"GetItem", `{`, `{"__type":"com.amazon.coral.service#SerializationException"}`},
		{"GetItem", `[]`, `{"__type":"com.amazon.coral.service#SerializationException"}`},
		{"GetItem", `{"TableName":5}`, `{"__type":"com.amazon.coral.service#SerializationException"}`},
		{"ExecuteStatement", `{}`, `{"__type":"com.amazon.coral.service#UnknownOperationException"}`},
	}
	for _, tt := range tests {
		a := c.call(tt.operation, tt.body)
		assert.Equal(t, 400, a.Status)
		assert.JSONEq(t, tt.want, string(a.Body), "%s %s", tt.operation, tt.body)
	}
	body := c.refused(t, "SerializationException", "", "PutItem", `{"TableName":"leases","Item":{"leaseKey":{"S":"a"},"n":{"N":5}}}`)
	assert.Equal(t, "com.amazon.coral.service#SerializationException", get(t, body, "__type"))
	c.refused(t, "SerializationException", "", "PutItem", `{"TableName":"leases","Item":{"leaseKey":{"S":"a"},"b":{"B":"?"}}}`)
	c.ok(t, "GetItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"a"}},"NoSuchMember":{"x":[1]}}`)
	require.Equal(t, "{}", c.ok(t, "PutItem", `{"TableName":"leases","Item":{"leaseKey":{"S":"a"}}}`))
}
