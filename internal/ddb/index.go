package ddb

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/entity"
)

// OwnerIndex is the lease table's index of leases by owner: HASH leaseOwner,
// RANGE leaseKey, keys only. Leases without an owner are not in it.
const OwnerIndex = "LeaseOwnerToLeaseKeyIndex"

const ownerAttribute = "leaseOwner"

const (
	// indexTimeout is KCL's. DynamoDB takes 8 to 17 minutes whatever the size.
	indexTimeout = 3600 * time.Second
	// invalidTimeout bounds how long a request for the index that DynamoDB calls
	// invalid is taken as a sign that somebody else makes it, though none shows.
	invalidTimeout = 60 * time.Second
)

// indexPoll asks every second in the first minute, when an index that somebody
// else began to build may be done, and then less often: a fleet shares the
// quota of DescribeTable.
func indexPoll(waited time.Duration) time.Duration {
	if waited < time.Minute {
		return time.Second
	}
	return 5 * time.Second
}

func indexKey() []types.KeySchemaElement {
	return []types.KeySchemaElement{
		{AttributeName: aws.String(ownerAttribute), KeyType: types.KeyTypeHash},
		{AttributeName: aws.String(entity.LeaseTableKey), KeyType: types.KeyTypeRange},
	}
}

func indexProjection() *types.Projection {
	return &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly}
}

// PrepareIndex asks for the index of owners unless the table has it, and waits
// up to 3600 s until it answers queries: an index that DescribeTable calls
// ACTIVE may not do so for some minutes. That another worker has asked for the
// index already, or that the table is busy, means waiting, not failing.
func (t *Table) PrepareIndex(ctx context.Context) error {
	w := indexWait{Table: t}
	ready, err := poll(ctx, indexTimeout, indexPoll, w.look)
	if err == nil && !ready {
		err = fmt.Errorf("index %s of table %s is not ready after %s: %w", OwnerIndex, t.cfg.Table, indexTimeout, kcl.ErrDependency)
		if w.last != nil {
			err = fmt.Errorf("%w; last failure: %w", err, w.last)
		}
	}
	return err
}

// indexWait is a [Table.PrepareIndex] under way.
type indexWait struct {
	*Table
	waiting bool      // and has said so
	invalid time.Time // since when requests for the index are called invalid; zero if they are not
	last    error     // a failure that was waited over
}

func (w *indexWait) look(ctx context.Context) (ready bool, err error) {
	desc, err := w.describe(ctx)
	switch {
	case Denied(err) || ctx.Err() != nil:
		return false, err
	case err != nil:
		w.last = err
		return false, nil
	case desc == nil:
		return false, fmt.Errorf("index of table %s: the table does not exist: %w", w.cfg.Table, kcl.ErrInvalidState)
	}
	status, err := indexStatus(desc)
	if err != nil {
		return false, err
	}
	if status == types.IndexStatusActive || status == types.IndexStatusUpdating {
		if ready, err := w.answers(ctx); ready || err != nil {
			return ready, err
		}
	}
	if status == "" {
		if err := w.request(ctx, desc); err != nil {
			return false, err
		}
	}
	if !w.waiting {
		w.waiting = true
		w.log.InfoContext(ctx, "waiting for the index of lease owners", "index", OwnerIndex)
	}
	return false, nil
}

// request asks for the index. Refusals that may mean that somebody is about it,
// or that the table is busy, are waited over: what DynamoDB answers is not the
// same in every phase of a build.
func (w *indexWait) request(ctx context.Context, desc *types.TableDescription) error {
	_, err := Call(ctx, w.cfg.RequestTimeout, "add index "+OwnerIndex+" to table "+w.cfg.Table, func(ctx context.Context) (*dynamodb.UpdateTableOutput, error) {
		return w.cfg.Client.UpdateTable(ctx, w.indexInput(desc))
	})
	switch Code(err) {
	case "ResourceInUseException", "LimitExceededException", "ThrottlingException":
		w.last, w.invalid = err, time.Time{}
		return nil
	case "ValidationException":
		if w.last = err; w.invalid.IsZero() {
			w.invalid = time.Now()
		}
		if time.Since(w.invalid) <= invalidTimeout {
			return nil
		}
	}
	if err == nil {
		w.invalid = time.Time{}
		w.log.InfoContext(ctx, "index of lease owners requested, which takes DynamoDB some minutes", "index", OwnerIndex)
	}
	return err
}

// answers queries the index for an owner that does not exist. Only the answer
// that the index is not there, or that it may not be read, counts as no.
func (w *indexWait) answers(ctx context.Context) (bool, error) {
	_, err := Call(ctx, w.cfg.RequestTimeout, "query index "+OwnerIndex+" of table "+w.cfg.Table, func(ctx context.Context) (*dynamodb.QueryOutput, error) {
		return w.cfg.Client.Query(ctx, &dynamodb.QueryInput{
			TableName:                 &w.cfg.Table,
			IndexName:                 aws.String(OwnerIndex),
			KeyConditionExpression:    aws.String("#owner = :nobody"),
			ExpressionAttributeNames:  map[string]string{"#owner": ownerAttribute},
			ExpressionAttributeValues: map[string]types.AttributeValue{":nobody": &types.AttributeValueMemberS{Value: "-"}},
			Limit:                     aws.Int32(1),
		})
	})
	switch {
	case IndexNotReady(err):
		w.last = err
		return false, nil
	case Denied(err) || ctx.Err() != nil:
		return false, err
	}
	return true, nil
}

// IndexActive reports whether the table exists and its index of owners is
// ACTIVE. Queries of it may still be refused, see [IndexNotReady].
func (t *Table) IndexActive(ctx context.Context) (bool, error) {
	desc, err := t.describe(ctx)
	if err != nil || desc == nil {
		return false, err
	}
	status, err := indexStatus(desc)
	return status == types.IndexStatusActive, err
}

// indexStatus returns the status of the index of owners, or "" if there is no
// such index. An index of that name with another key is an error.
func indexStatus(desc *types.TableDescription) (types.IndexStatus, error) {
	for _, ix := range desc.GlobalSecondaryIndexes {
		if aws.ToString(ix.IndexName) != OwnerIndex {
			continue
		}
		const want = ownerAttribute + " (HASH, S) + " + entity.LeaseTableKey + " (RANGE, S)"
		if have := describeKey(ix.KeySchema, desc.AttributeDefinitions); have != want {
			return "", fmt.Errorf("index %s of table %s cannot be the index of lease owners: its key is %s, not %s; delete it or use another table: %w",
				OwnerIndex, aws.ToString(desc.TableName), have, want, ErrUnsuitable)
		}
		return ix.IndexStatus, nil
	}
	return "", nil
}

// indexInput gives the index of a provisioned table what the table itself has:
// writes to the table are throttled when those to its index are.
func (t *Table) indexInput(desc *types.TableDescription) *dynamodb.UpdateTableInput {
	return &dynamodb.UpdateTableInput{
		TableName: &t.cfg.Table,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String(ownerAttribute), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String(entity.LeaseTableKey), AttributeType: types.ScalarAttributeTypeS},
		},
		GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{{
			Create: &types.CreateGlobalSecondaryIndexAction{
				IndexName:             aws.String(OwnerIndex),
				KeySchema:             indexKey(),
				Projection:            indexProjection(),
				ProvisionedThroughput: throughput(desc),
			},
		}},
	}
}
