package coordinator

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/wire"
	"github.com/go-kcl/kcl/internal/entity"
	"github.com/go-kcl/kcl/kcltest"
)

// world is a lease table, "app", in a bubble.
type world struct {
	t   *testing.T
	aws *kcltest.AWS
	ddb *dynamodb.Client
}

func inWorld(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := kcltest.New(kcltest.Options{Latency: 10 * time.Millisecond})
		w := &world{t: t, aws: a, ddb: dynamodb.NewFromConfig(a.Config("operator"))}
		w.createTable("app", entity.LeaseTableKey)
		f(t, w)
	})
}

func (w *world) createTable(name, key string) {
	w.t.Helper()
	_, err := w.ddb.CreateTable(w.t.Context(), &dynamodb.CreateTableInput{
		TableName:            &name,
		BillingMode:          types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: &key, AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: &key, KeyType: types.KeyTypeHash}},
	})
	require.NoError(w.t, err)
	time.Sleep(time.Minute)
}

func (w *world) store(worker string) *Store {
	return NewStore(StoreConfig{Client: dynamodb.NewFromConfig(w.aws.Config(worker)), Table: "app"})
}

func (w *world) item(key string) map[string]types.AttributeValue {
	w.t.Helper()
	out, err := w.ddb.GetItem(w.t.Context(), &dynamodb.GetItemInput{TableName: aws.String("app"), Key: keyOf(key), ConsistentRead: aws.Bool(true)})
	require.NoError(w.t, err)
	return out.Item
}

func (w *world) put(av map[string]types.AttributeValue) {
	w.t.Helper()
	_, err := w.ddb.PutItem(w.t.Context(), &dynamodb.PutItemInput{TableName: aws.String("app"), Item: av})
	require.NoError(w.t, err)
}

var errBroken = errors.New("connection broken")

// once lets the first call of an operation meet f, and every other call go
// through.
func (w *world) once(operation string, f func(run func() wire.Answer) (wire.Answer, error)) {
	met := make(chan struct{}, 1)
	w.aws.Intercept(func(_ context.Context, i wire.Info, run func() wire.Answer) (wire.Answer, error) {
		if i.Operation == operation && i.Client != "operator" {
			select {
			case met <- struct{}{}:
				return f(run)
			default:
			}
		}
		return run(), nil
	})
}

// landed carries the call out, but its answer is lost.
func landed(run func() wire.Answer) (wire.Answer, error) {
	run()
	return wire.Answer{}, errBroken
}

// refused answers with an error code.
func refused(code string) func(func() wire.Answer) (wire.Answer, error) {
	return func(func() wire.Answer) (wire.Answer, error) {
		e := &wire.Error{Status: 400, Type: "com.amazonaws.dynamodb.v20120810#" + code, Message: "no"}
		return e.Answer(wire.JSON10), nil
	}
}

// hang never answers.
func hang(ctx context.Context, _ wire.Info, _ func() wire.Answer) (wire.Answer, error) {
	<-ctx.Done()
	return wire.Answer{}, ctx.Err()
}
