package javalike

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// tableStatus returns a table's status, empty if there is none.
func (w *Worker) tableStatus(ctx context.Context, name string) (types.TableStatus, error) {
	out, err := w.db.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &name})
	if missing := (*types.ResourceNotFoundException)(nil); errors.As(err, &missing) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return out.Table.TableStatus, nil
}

// makeTable creates a table unless there is one, and waits for it.
func (w *Worker) makeTable(ctx context.Context, name, key string) error {
	status, err := w.tableStatus(ctx, name)
	if err == nil && status == "" {
		_, err = w.db.CreateTable(ctx, createTable(name, key))
		if taken := (*types.ResourceInUseException)(nil); errors.As(err, &taken) {
			err = nil
		}
	}
	for err == nil && status != types.TableStatusActive && status != types.TableStatusUpdating {
		if !sleep(ctx, tablePoll) {
			return ctx.Err()
		}
		status, err = w.tableStatus(ctx, name)
	}
	return err
}

// makeIndex creates the index of owners unless there is one, and waits for it.
func (w *Worker) makeIndex(ctx context.Context) error {
	for created := false; ; created = true {
		out, err := w.db.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &w.wire.lease})
		if err != nil {
			return err
		}
		status := types.IndexStatus("")
		for _, x := range out.Table.GlobalSecondaryIndexes {
			if *x.IndexName == ownerIndex {
				status = x.IndexStatus
			}
		}
		switch {
		case status == types.IndexStatusActive:
			return nil
		case status == "" && !created:
			if _, err := w.db.UpdateTable(ctx, w.wire.createIndex()); err != nil {
				return fmt.Errorf("create index: %w", err) // another worker may be at it
			}
		}
		if !sleep(ctx, tablePoll) {
			return ctx.Err()
		}
	}
}

// persistVersion says that the application is one of 3.x.
func (w *Worker) persistVersion(ctx context.Context) error {
	out, err := w.db.GetItem(ctx, w.wire.getState(versionKey))
	if err != nil {
		return err
	}
	if out.Item == nil {
		done, err := w.put(ctx, w.wire.createVersion(w.Name, time.Now()))
		if err == nil && !done {
			err = errors.New("lost the race for Migration3.0")
		}
		return err
	}
	cv, err := decodeState("cv", out.Item)
	if err == nil && cv != "CLIENT_VERSION_3X" {
		err = fmt.Errorf("the application is at %s", cv)
	}
	if err != nil {
		w.complain("start", versionKey, err)
	}
	return err
}

func (w *Worker) sendReport(ctx context.Context) {
	if _, err := w.db.UpdateItem(ctx, w.wire.report(w.Name, time.Now())); err != nil {
		w.Tell("%s cannot report: %v", w.Name, err)
	}
}

// put, update and get are a lease's and a lock's, each with a bound. A condition
// that fails is no error.
func (w *Worker) put(ctx context.Context, in *dynamodb.PutItemInput) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err = w.db.PutItem(ctx, in)
	if refused := (*types.ConditionalCheckFailedException)(nil); errors.As(err, &refused) {
		return false, nil
	}
	return err == nil, err
}

// update returns the new item if the request asks for it, or what stood against it.
func (w *Worker) update(ctx context.Context, in *dynamodb.UpdateItemInput) (is item, done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	out, err := w.db.UpdateItem(ctx, in)
	if refused := (*types.ConditionalCheckFailedException)(nil); errors.As(err, &refused) {
		return refused.Item, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	return out.Attributes, true, nil
}

// getLease reads one lease, which may be a little old. What is no lease is none.
func (w *Worker) getLease(ctx context.Context, key string) (lease, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	out, err := w.db.GetItem(ctx, w.wire.get(key))
	if err != nil || out.Item == nil || !w.wire.legacy && entityOf(out.Item) != leaseEntity {
		return lease{}, false, err
	}
	l, err := decodeLease(out.Item)
	if err != nil {
		w.complain("get lease", key, err)
	}
	return l, err == nil, err
}

// list returns all leases, as shard sync and the auditor read them. 3.5 leaves out
// what is no lease, and what it cannot read; 3.4 knows of leases only, and an item
// without a counter is the end of the listing.
func (w *Worker) list(ctx context.Context, act string) (all []lease, err error) {
	err = w.scan(ctx, &dynamodb.ScanInput{TableName: &w.wire.lease}, func(it item) error {
		if !w.wire.legacy && entityOf(it) != leaseEntity {
			if err := decode(entityOf(it), it); err != nil {
				w.complain(act, text(it["leaseKey"]), err)
			}
			return nil
		}
		l, err := decodeLease(it)
		if err != nil {
			w.complain(act, text(it["leaseKey"]), err)
			if w.wire.legacy {
				return fmt.Errorf("%s: %q: %w", act, text(it["leaseKey"]), err)
			}
			return nil
		}
		all = append(all, l)
		return nil
	})
	return all, err
}

// empty reports whether the table has no lease. 3.4 looks at one item.
func (w *Worker) empty(ctx context.Context) (bool, error) {
	if !w.wire.legacy {
		all, err := w.list(ctx, "look for leases")
		return len(all) == 0, err
	}
	out, err := w.db.Scan(ctx, &dynamodb.ScanInput{TableName: &w.wire.lease, Limit: aws.Int32(1)})
	if err != nil || len(out.Items) == 0 {
		return err == nil, err
	}
	if _, err = decodeLease(out.Items[0]); err != nil {
		w.complain("look for leases", text(out.Items[0]["leaseKey"]), err)
		return false, fmt.Errorf("look for leases: %w", err)
	}
	return false, nil
}

// scan goes through all pages.
func (w *Worker) scan(ctx context.Context, in *dynamodb.ScanInput, see func(item) error) error {
	for {
		out, err := w.db.Scan(ctx, in)
		if err != nil {
			return err
		}
		for _, it := range out.Items {
			if err := see(it); err != nil {
				return err
			}
		}
		if in.ExclusiveStartKey = out.LastEvaluatedKey; in.ExclusiveStartKey == nil {
			return nil
		}
	}
}
