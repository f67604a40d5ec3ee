package ddb

import (
	"context"
	"errors"
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
	// refusalsTimeout bounds how long refused requests for the index are taken
	// as a sign that somebody else makes it, though none shows.
	refusalsTimeout = 60 * time.Second
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
	var refused error          // the last answer to our request for the index
	var refusedSince time.Time // zero while nothing was refused
	waiting := false
	ready, err := poll(ctx, indexTimeout, indexPoll, func(ctx context.Context) (bool, error) {
		desc, err := t.describe(ctx)
		if err != nil {
			return false, t.tolerate(ctx, err)
		}
		if desc == nil {
			return false, fmt.Errorf("index of table %s: the table does not exist: %w", t.cfg.Table, kcl.ErrInvalidState)
		}
		status, err := indexStatus(desc)
		if err != nil {
			return false, err
		}
		switch status {
		case types.IndexStatusActive, types.IndexStatusUpdating:
			return t.indexAnswers(ctx)
		case "":
			refused, err = t.requestIndex(ctx, desc)
			switch {
			case err != nil:
				return false, err
			case refused == nil:
				refusedSince = time.Time{}
			case refusedSince.IsZero():
				refusedSince = time.Now()
			case time.Since(refusedSince) > refusalsTimeout && !errors.Is(refused, kcl.ErrThrottled):
				return false, refused
			}
		default:
			refusedSince = time.Time{}
		}
		if !waiting {
			waiting = true
			t.log.InfoContext(ctx, "waiting for the index of lease owners", "index", OwnerIndex)
		}
		return false, nil
	})
	if err == nil && !ready {
		err = fmt.Errorf("index %s of table %s is not ACTIVE after %s: %w", OwnerIndex, t.cfg.Table, indexTimeout, kcl.ErrDependency)
		if refused != nil {
			err = fmt.Errorf("%w; it was refused last by: %w", err, refused)
		}
	}
	return err
}

// tolerate passes on what no waiting helps against: a missing permission, and
// the end of ctx.
func (t *Table) tolerate(ctx context.Context, err error) error {
	if Denied(err) || ctx.Err() != nil {
		return err
	}
	t.log.DebugContext(ctx, "look at the index failed", "err", err)
	return nil
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
				OwnerIndex, aws.ToString(desc.TableName), have, want, kcl.ErrInvalidState)
		}
		return ix.IndexStatus, nil
	}
	return "", nil
}

// requestIndex asks for the index. Refusals that may mean that somebody is
// about it, or that the table is busy, are returned as refused: what DynamoDB
// answers is not the same in every phase of a build.
func (t *Table) requestIndex(ctx context.Context, desc *types.TableDescription) (refused, err error) {
	_, err = Call(ctx, t.cfg.RequestTimeout, "add index "+OwnerIndex+" to table "+t.cfg.Table, func(ctx context.Context) (*dynamodb.UpdateTableOutput, error) {
		return t.cfg.Client.UpdateTable(ctx, t.indexInput(desc))
	})
	switch Code(err) {
	case "ResourceInUseException", "LimitExceededException", "ThrottlingException", "ValidationException":
		t.log.DebugContext(ctx, "request for the index refused", "index", OwnerIndex, "err", err)
		return err, nil
	}
	if err == nil {
		t.log.InfoContext(ctx, "index of lease owners requested, which takes DynamoDB some minutes", "index", OwnerIndex)
	}
	return nil, err
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

// indexAnswers queries the index for an owner that does not exist. Only the
// answer that the index is not there counts as no.
func (t *Table) indexAnswers(ctx context.Context) (bool, error) {
	_, err := Call(ctx, t.cfg.RequestTimeout, "query index "+OwnerIndex+" of table "+t.cfg.Table, func(ctx context.Context) (*dynamodb.QueryOutput, error) {
		return t.cfg.Client.Query(ctx, &dynamodb.QueryInput{
			TableName:                 &t.cfg.Table,
			IndexName:                 aws.String(OwnerIndex),
			KeyConditionExpression:    aws.String("#owner = :nobody"),
			ExpressionAttributeNames:  map[string]string{"#owner": ownerAttribute},
			ExpressionAttributeValues: map[string]types.AttributeValue{":nobody": &types.AttributeValueMemberS{Value: "-"}},
			Limit:                     aws.Int32(1),
		})
	})
	switch {
	case IndexNotReady(err):
		return false, nil
	case err != nil:
		if err := t.tolerate(ctx, err); err != nil {
			return false, err
		}
	}
	return true, nil
}
