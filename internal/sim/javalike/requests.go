package javalike

import (
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// tables are where a release keeps what.
type tables struct {
	lease, state, stats string // names
	stateKey, statsKey  string // partition keys
	legacy              bool
}

func tablesOf(r Release, application string) tables {
	if r == V34 {
		return tables{application, application + "-CoordinatorState", application + "-WorkerMetricStats", "key", "wid", true}
	}
	return tables{application, application, application, "leaseKey", "leaseKey", false}
}

const ownerIndex = "LeaseOwnerToLeaseKeyIndex"

func str(v string) types.AttributeValue { return &types.AttributeValueMemberS{Value: v} }
func num(v int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(v, 10)}
}

// double is a number as Java writes it: 0.0 and 1.0E-6.
func double(f float64) types.AttributeValue {
	s := strconv.FormatFloat(f, 'f', -1, 64)
	var exponent string
	if f != 0 && (f < 1e-3 || f >= 1e7) {
		mantissa, e, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
		n, _ := strconv.Atoi(e)
		s, exponent = mantissa, "E"+strconv.Itoa(n)
	}
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return &types.AttributeValueMemberN{Value: s + exponent}
}

// The members of the requests' older form, which Java uses.
type (
	updates  = map[string]types.AttributeValueUpdate
	expected = map[string]types.ExpectedAttributeValue
)

func put(v types.AttributeValue) types.AttributeValueUpdate {
	return types.AttributeValueUpdate{Action: types.AttributeActionPut, Value: v}
}
func addOne() types.AttributeValueUpdate {
	return types.AttributeValueUpdate{Action: types.AttributeActionAdd, Value: num(1)}
}
func remove() types.AttributeValueUpdate {
	return types.AttributeValueUpdate{Action: types.AttributeActionDelete}
}
func is(v types.AttributeValue) types.ExpectedAttributeValue {
	return types.ExpectedAttributeValue{Value: v}
}
func absent() types.ExpectedAttributeValue {
	return types.ExpectedAttributeValue{Exists: aws.Bool(false)}
}

// isOrAbsent expects a text, or nothing where that is empty.
func isOrAbsent(v string) types.ExpectedAttributeValue {
	if v == "" {
		return absent()
	}
	return is(str(v))
}
func exists(key string) types.ExpectedAttributeValue {
	return types.ExpectedAttributeValue{Exists: aws.Bool(true), Value: str(key)}
}

func (t tables) leaseItemKey(key string) item { return item{"leaseKey": str(key)} }

func (t tables) create(l lease) *dynamodb.PutItemInput {
	it := item{
		"leaseKey": str(l.key), "leaseCounter": num(0), "ownerSwitchesSinceCheckpoint": num(0),
		"checkpoint": str(l.checkpoint), "checkpointSubSequenceNumber": num(0),
		"startingHashKey": str(l.start), "endingHashKey": str(l.end),
	}
	if len(l.parents) > 0 {
		it["parentShardId"] = &types.AttributeValueMemberSS{Value: l.parents}
	}
	if !t.legacy {
		it["entityType"] = str(leaseEntity)
	}
	return &dynamodb.PutItemInput{TableName: &t.lease, Item: it, Expected: expected{"leaseKey": absent()}}
}

func (t tables) get(key string) *dynamodb.GetItemInput {
	return &dynamodb.GetItemInput{TableName: &t.lease, Key: t.leaseItemKey(key), ConsistentRead: aws.Bool(false)}
}

func (t tables) renew(l lease) *dynamodb.UpdateItemInput {
	up := updates{"leaseCounter": put(num(l.counter + 1))}
	if l.hasThroughput {
		up["throughputKBps"] = put(double(l.throughput))
	}
	want := expected{"leaseCounter": is(num(l.counter))}
	if !l.handOff() {
		want["checkpointOwner"] = absent()
	}
	return &dynamodb.UpdateItemInput{
		TableName: &t.lease, Key: t.leaseItemKey(l.key), AttributeUpdates: up, Expected: want,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
}

// assign gives a lease to a worker, whatever its counter is. It completes hand-offs,
// too.
func (t tables) assign(l lease, to string) *dynamodb.UpdateItemInput {
	up := updates{"leaseOwner": put(str(to)), "checkpointOwner": remove(), "leaseCounter": addOne()}
	if l.owner != "" && l.owner != to || l.checkpointOwner == to {
		up["ownerSwitchesSinceCheckpoint"] = addOne()
	}
	return &dynamodb.UpdateItemInput{
		TableName: &t.lease, Key: t.leaseItemKey(l.key), AttributeUpdates: up,
		Expected: expected{
			"leaseKey": exists(l.key), "leaseOwner": isOrAbsent(l.owner), "checkpointOwner": isOrAbsent(l.checkpointOwner),
		},
		ReturnValues:                        types.ReturnValueAllNew,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
}

// startHandOff asks a lease's owner to finish. The counter stays, for the owner
// goes on renewing.
func (t tables) startHandOff(l lease, to string) *dynamodb.UpdateItemInput {
	return &dynamodb.UpdateItemInput{
		TableName: &t.lease, Key: t.leaseItemKey(l.key),
		AttributeUpdates: updates{"leaseOwner": put(str(to)), "checkpointOwner": put(str(l.owner))},
		Expected:         expected{"leaseKey": exists(l.key), "leaseOwner": is(str(l.owner)), "checkpointOwner": absent()},
		ReturnValues:     types.ReturnValueAllNew,
	}
}

func (t tables) checkpoint(l lease) *dynamodb.UpdateItemInput {
	up := updates{
		"leaseCounter": put(num(l.counter + 1)),
		"checkpoint":   put(str(l.checkpoint)), "checkpointSubSequenceNumber": put(num(l.sub)),
		"ownerSwitchesSinceCheckpoint": put(num(l.switches)),
		"pendingCheckpoint":            remove(), "pendingCheckpointSubSequenceNumber": remove(), "pendingCheckpointState": remove(),
	}
	if l.pending != "" {
		up["pendingCheckpoint"], up["pendingCheckpointSubSequenceNumber"] = put(str(l.pending)), put(num(l.pendingSub))
	}
	if l.pendingState != nil {
		up["pendingCheckpointState"] = put(&types.AttributeValueMemberB{Value: l.pendingState})
	}
	if len(l.children) > 0 {
		up["childShardIds"] = put(&types.AttributeValueMemberSS{Value: l.children})
	}
	if l.start != "" {
		up["startingHashKey"], up["endingHashKey"] = put(str(l.start)), put(str(l.end))
	}
	return &dynamodb.UpdateItemInput{
		TableName: &t.lease, Key: t.leaseItemKey(l.key), AttributeUpdates: up, Expected: expected{"leaseCounter": is(num(l.counter))},
	}
}

func (t tables) setChildren(key string, children []string) *dynamodb.UpdateItemInput {
	return &dynamodb.UpdateItemInput{
		TableName: &t.lease, Key: t.leaseItemKey(key),
		AttributeUpdates: updates{"childShardIds": put(&types.AttributeValueMemberSS{Value: children})},
		Expected:         expected{"leaseKey": exists(key)},
	}
}

func (t tables) delete(key string) *dynamodb.DeleteItemInput {
	return &dynamodb.DeleteItemInput{TableName: &t.lease, Key: t.leaseItemKey(key)}
}

func (t tables) owned(by string) *dynamodb.QueryInput {
	return &dynamodb.QueryInput{
		TableName: &t.lease, IndexName: aws.String(ownerIndex), KeyConditionExpression: aws.String("leaseOwner = :leaseOwner"),
		ExpressionAttributeValues: item{":leaseOwner": str(by)},
	}
}

// getState reads a lock or the state of a migration.
func (t tables) getState(key string) *dynamodb.GetItemInput {
	return &dynamodb.GetItemInput{TableName: &t.state, Key: item{t.stateKey: str(key)}, ConsistentRead: aws.Bool(true)}
}

func (t tables) createVersion(worker string, now time.Time) *dynamodb.PutItemInput {
	past := item{"cv": str("CLIENT_VERSION_INIT"), "mb": str(worker), "mts": num(now.UnixMilli())}
	it := item{
		t.stateKey: str(versionKey), "cv": str("CLIENT_VERSION_3X"), "mb": str(worker), "mts": num(now.UnixMilli()),
		"h": &types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberM{Value: past}}},
	}
	if !t.legacy {
		it["entityType"] = str(versionEntity)
	}
	return &dynamodb.PutItemInput{TableName: &t.state, Item: it, Expected: expected{t.stateKey: absent()}}
}

// acquire puts a lock where there is none, or in place of one that was released
// or has outlived its term at a version.
func (t tables) acquire(owner, version string, lasts time.Duration, was *lock) *dynamodb.PutItemInput {
	it := item{
		t.stateKey: str(leaderKey), "ownerName": str(owner), "recordVersionNumber": str(version),
		"leaseDuration": str(strconv.FormatInt(lasts.Milliseconds(), 10)),
	}
	if !t.legacy {
		it["entityType"] = str(leaderEntity)
	}
	in := &dynamodb.PutItemInput{TableName: &t.state, Item: it, ExpressionAttributeNames: map[string]string{"#pk": t.stateKey}}
	switch {
	case was == nil:
		in.ConditionExpression = aws.String("attribute_not_exists(#pk)")
	case was.released:
		in.ConditionExpression = aws.String("attribute_exists(#pk) AND #ir = :ir")
		in.ExpressionAttributeNames["#ir"] = "isReleased"
		in.ExpressionAttributeValues = item{":ir": str("1")}
	default:
		in.ConditionExpression = aws.String("attribute_exists(#pk) AND #rvn = :rvn")
		in.ExpressionAttributeNames["#rvn"] = "recordVersionNumber"
		in.ExpressionAttributeValues = item{":rvn": str(was.version)}
	}
	return in
}

const stillMine = "attribute_exists(#pk) AND #rvn = :rvn AND #on = :on"

func (t tables) lockNames() map[string]string {
	return map[string]string{"#pk": t.stateKey, "#rvn": "recordVersionNumber", "#on": "ownerName"}
}

func (t tables) beat(mine lock, next string) *dynamodb.UpdateItemInput {
	names := t.lockNames()
	names["#ld"] = "leaseDuration"
	return &dynamodb.UpdateItemInput{
		TableName: &t.state, Key: item{t.stateKey: str(leaderKey)},
		ConditionExpression: aws.String(stillMine), UpdateExpression: aws.String("SET #ld = :ld, #rvn = :newRvn"),
		ExpressionAttributeNames: names,
		ExpressionAttributeValues: item{
			":ld": str(strconv.FormatInt(mine.lasts.Milliseconds(), 10)), ":newRvn": str(next), ":rvn": str(mine.version), ":on": str(mine.owner),
		},
	}
}

func (t tables) release(mine lock) *dynamodb.DeleteItemInput {
	return &dynamodb.DeleteItemInput{
		TableName: &t.state, Key: item{t.stateKey: str(leaderKey)},
		ConditionExpression: aws.String(stillMine), ExpressionAttributeNames: t.lockNames(),
		ExpressionAttributeValues: item{":rvn": str(mine.version), ":on": str(mine.owner)},
	}
}

// report is a worker's row as one without measurements writes it.
func (t tables) report(worker string, now time.Time) *dynamodb.UpdateItemInput {
	const mapped = "AMZN_MAPPED_"
	values := item{
		"lut": num(now.Unix()), "sts": &types.AttributeValueMemberM{Value: item{}}, "opr": &types.AttributeValueMemberM{Value: item{}},
	}
	order := []string{"opr", "sts", "lut"}
	if !t.legacy {
		order = []string{"opr", "sts", "entityType", "lut", "slu", "sup"}
		maps.Copy(values, item{"entityType": str(reportEntity), "slu": num(now.Unix()), "sup": num(1)})
	}
	in := &dynamodb.UpdateItemInput{
		TableName: &t.stats, Key: item{t.statsKey: str(worker)}, ReturnValues: types.ReturnValueAllNew,
		ExpressionAttributeNames: map[string]string{}, ExpressionAttributeValues: item{},
	}
	set := "SET "
	for i, name := range order {
		if i > 0 {
			set += ", "
		}
		set += "#" + mapped + name + " = :" + mapped + name
		in.ExpressionAttributeNames["#"+mapped+name], in.ExpressionAttributeValues[":"+mapped+name] = name, values[name]
	}
	in.UpdateExpression = &set
	return in
}

func createTable(name, key string) *dynamodb.CreateTableInput {
	return &dynamodb.CreateTableInput{
		TableName: &name, BillingMode: types.BillingModePayPerRequest, DeletionProtectionEnabled: aws.Bool(false),
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: &key, AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: &key, KeyType: types.KeyTypeHash}},
	}
}

func (t tables) createIndex() *dynamodb.UpdateTableInput {
	owner, key := aws.String("leaseOwner"), aws.String("leaseKey")
	return &dynamodb.UpdateTableInput{
		TableName: &t.lease,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: owner, AttributeType: types.ScalarAttributeTypeS}, {AttributeName: key, AttributeType: types.ScalarAttributeTypeS},
		},
		GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{{Create: &types.CreateGlobalSecondaryIndexAction{
			IndexName:  aws.String(ownerIndex),
			KeySchema:  []types.KeySchemaElement{{AttributeName: owner, KeyType: types.KeyTypeHash}, {AttributeName: key, KeyType: types.KeyTypeRange}},
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
		}}},
	}
}
