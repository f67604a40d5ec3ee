//go:build interop

package interop

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/kcltest"
)

// The watch finds what must not be written. No Java is needed for that.
func TestWatch(t *testing.T) {
	f := newFleet(t, 1, kcltest.Options{Delays: kcltest.NoDelays})
	f.tell = func(string, ...any) {} // its findings are wanted
	client := func(name string) *dynamodb.Client {
		return dynamodb.New(dynamodb.Options{
			Region: "us-east-1", BaseEndpoint: aws.String(f.endpoint),
			Credentials: credentials.NewStaticCredentialsProvider(name, "secret", ""),
		})
	}
	_, err := client("go-1").CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String(app), BillingMode: types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("leaseKey"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("leaseKey"), AttributeType: types.ScalarAttributeTypeS}},
	})
	require.NoError(t, err)

	s := func(v string) types.AttributeValue { return &types.AttributeValueMemberS{Value: v} }
	n := func(v int) types.AttributeValue { return &types.AttributeValueMemberN{Value: strconv.Itoa(v)} }
	put := func(by string, it item) {
		_, err := client(by).PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(app), Item: it})
		require.NoError(t, err)
	}
	lease := func(owner, checkpoint string, counter int) item {
		it := item{
			"leaseKey": s("shardId-000000000000"), "entityType": s("LEASE"), "leaseCounter": n(counter), "ownerSwitchesSinceCheckpoint": n(0),
			"checkpoint": s(checkpoint), "checkpointSubSequenceNumber": n(0),
		}
		if owner != "" {
			it["leaseOwner"] = s(owner)
		}
		return it
	}
	lock := func(owner, ms string) item {
		return item{"leaseKey": s("Leader"), "entityType": s("LEADER"), "ownerName": s(owner), "leaseDuration": s(ms), "recordVersionNumber": s("v")}
	}

	put("java-1", lock("java-1", "60000"))
	put("java-1", lease("", "TRIM_HORIZON", 0))
	put("java-1", lease("java-1", "TRIM_HORIZON", 1))
	put("java-1", lease("java-1", "20", 2))
	f.finds("")
	assert.Equal(t, "java-1", f.leader())
	assert.Equal(t, []string{"shardId-000000000000"}, f.owned("java-1"))

	// A pause is noted, and what was done to whom.
	const key = "shardId-000000000000"
	f.attend(true)
	f.mu.Lock()
	f.beats[key] = f.beats[key].Add(-10 * time.Second)
	f.mu.Unlock()
	put("java-1", lease("java-1", "20", 2))
	require.Len(t, f.silences, 1)
	assert.Equal(t, "java-1", f.silences[0].by)
	assert.InDelta(t, 10, f.silences[0].lasts().Seconds(), 1)
	assert.False(t, f.absence[0].to.Equal(never), "an owner has written")
	put("java-1", lease("java-2", "20", 2))
	f.finds("")
	assert.Equal(t, []string{key}, f.given("java-2"))
	f.upset("killed", "java-1")
	f.upset("killed", "java-2")
	f.upset("killed", "java-3")
	assert.Equal(t, time.Minute, f.upsets[0].lock, "it led")
	assert.Empty(t, f.upsets[0].moving)
	assert.Zero(t, f.upsets[1].lock)
	assert.Equal(t, []string{key}, f.upsets[1].moving, "given to it, and not taken up")
	put("java-1", lease("java-3", "20", 2))
	assert.Equal(t, []string{key}, f.upsets[2].moving, "given to it after it had gone")
	put("java-1", lease("java-1", "20", 2))
	put("java-1", lease("java-1", "20", 2))
	assert.Empty(t, f.given("java-1"), "taken up")
	f.attend(false)
	assert.Len(t, f.absence, 2)
	f.attend(true)
	assert.False(t, f.absence[1].to.Equal(never))
	f.finds("")

	put("go-1", lock("go-1", "60000"))
	f.finds("go-1 takes the lock from java-1")
	put("go-1", lock("java-1", "60000"))
	f.finds("go-1 writes a lock of java-1")
	put("java-1", lock("java-1", "0"))
	put("go-1", lock("go-1", "60000"))
	f.mu.Lock()
	f.faults = nil
	f.mu.Unlock()
	put("go-1", lease("java-1", "21", 3))
	f.finds("go-1 moves the checkpoint of shardId-000000000000, which is java-1's")
	put("java-1", lease("java-1", "9", 4))
	f.finds("back from 21 to 9")
	put("java-1", lease("java-1", "9", 3))
	f.finds("moves the counter")
	put("java-1", lease("java-2", "9", 5))
	f.finds(`java-1 gives shardId-000000000000 to java-2, and "go-1" leads`)
	put("go-1", lease("java-3", "9", 6))
	put("go-1", lease("java-2", "9", 7))
	f.finds("go-1 takes shardId-000000000000 from java-3")
	bad := lease("java-2", "9", 8)
	delete(bad, "leaseCounter")
	put("go-1", bad)
	f.finds("leaseCounter is missing")
	put("go-1", item{"leaseKey": s("java-2"), "entityType": s("WORKER_METRIC_STATS"), "lut": s("now")})
	f.finds("lut is of type S, not N")
	_, err = client("go-1").DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String(app), Key: item{"leaseKey": s("shardId-000000000000")}})
	require.NoError(t, err)
	f.finds("go-1 deletes shardId-000000000000 at 9")
}

// finds holds the faults that the watch has found since the last time against one
// that is wanted, "" for none.
func (f *fleet) finds(want string) {
	f.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if want == "" {
		require.Empty(f, f.faults)
		return
	}
	require.NotEmpty(f, f.faults, want)
	assert.Contains(f, strings.Join(f.faults, "\n"), want)
	f.faults = nil
}
