package ddb

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/wire"
	"github.com/go-kcl/kcl/internal/testbed"
	"github.com/go-kcl/kcl/kcltest"
)

const testTable = "app"

// world is an emulated DynamoDB. Tests that wait run in a bubble.
type world struct {
	t      *testing.T
	aws    *kcltest.AWS
	client *dynamodb.Client // for what others do, and to look
}

func newWorld(t *testing.T, delays kcltest.Delays) *world {
	emu := kcltest.New(kcltest.Options{Delays: delays})
	return &world{t: t, aws: emu, client: dynamodb.NewFromConfig(emu.Config("other"))}
}

// table returns the table of a worker.
func (w *world) table(worker string, cfg TableConfig) *Table {
	cfg.Client = dynamodb.NewFromConfig(w.aws.Config(worker))
	cfg.Table = testTable
	cfg.Logger = testbed.Logger(w.t.Output())
	return NewTable(cfg)
}

func (w *world) describe() *types.TableDescription {
	w.t.Helper()
	out, err := w.client.DescribeTable(w.t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(testTable)})
	require.NoError(w.t, err)
	return out.Table
}

// create makes a table as an older KCL does, without the index, or changed by
// f, and waits until it is ACTIVE.
func (w *world) create(f func(*dynamodb.CreateTableInput)) {
	w.t.Helper()
	in := w.table("other", TableConfig{}).createInput()
	in.GlobalSecondaryIndexes = nil
	in.AttributeDefinitions = in.AttributeDefinitions[:1]
	if f != nil {
		f(in)
	}
	_, err := w.client.CreateTable(w.t.Context(), in)
	require.NoError(w.t, err)
	for w.describe().TableStatus != types.TableStatusActive {
		time.Sleep(10 * time.Millisecond)
	}
}

// answer replaces the answer of each call of the operation by f's; nil leaves
// it.
func (w *world) answer(operation string, f func(n int) *wire.Error) {
	n := 0
	w.aws.Intercept(func(_ context.Context, info wire.Info, run func() wire.Answer) (wire.Answer, error) {
		if info.Operation == operation && info.Client != "other" {
			n++
			if e := f(n); e != nil {
				return e.Answer(wire.JSON10), nil
			}
		}
		return run(), nil
	})
}

func denied(action string) *wire.Error {
	return &wire.Error{
		Status: 400, Type: "com.amazon.coral.service#AccessDeniedException", MessageKey: "Message",
		Message: "User: arn:aws:sts::123456789012:assumed-role/role/session is not authorized to perform: dynamodb:" + action,
	}
}

func failure(code, message string) *wire.Error {
	return &wire.Error{Status: 400, Type: "com.amazonaws.dynamodb.v20120810#" + code, Message: message}
}
