package ddb

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// backupsTimeout is ample: a new table refuses for up to 3 s after it has
// become ACTIVE.
const backupsTimeout = 120 * time.Second

// enableBackups turns point-in-time recovery on unless it is on. KCL asks for
// no permission to look, so without it the change is requested blindly.
func (t *Table) enableBackups(ctx context.Context) error {
	on, err := t.backupsOn(ctx)
	if on || (err != nil && !Denied(err)) {
		return err
	}
	what := "enable point-in-time recovery of table " + t.cfg.Table
	var refused error
	done, err := poll(ctx, backupsTimeout, steadily(time.Second), func(ctx context.Context) (bool, error) {
		_, err := Call(ctx, t.cfg.RequestTimeout, what, func(ctx context.Context) (*dynamodb.UpdateContinuousBackupsOutput, error) {
			return t.cfg.Client.UpdateContinuousBackups(ctx, &dynamodb.UpdateContinuousBackupsInput{
				TableName:                        &t.cfg.Table,
				PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(true)},
			})
		})
		if Code(err) == "ContinuousBackupsUnavailableException" {
			refused = err
			return false, nil
		}
		return err == nil, err
	})
	if err == nil && !done {
		err = fmt.Errorf("refused for %s: %w", backupsTimeout, refused)
	}
	if err == nil {
		t.log.InfoContext(ctx, "point-in-time recovery of the lease table enabled")
	}
	return err
}

func (t *Table) backupsOn(ctx context.Context) (bool, error) {
	out, err := Call(ctx, t.cfg.RequestTimeout, "describe backups of table "+t.cfg.Table, func(ctx context.Context) (*dynamodb.DescribeContinuousBackupsOutput, error) {
		return t.cfg.Client.DescribeContinuousBackups(ctx, &dynamodb.DescribeContinuousBackupsInput{TableName: &t.cfg.Table})
	})
	if err != nil {
		return false, err
	}
	d := out.ContinuousBackupsDescription
	return d != nil && d.PointInTimeRecoveryDescription != nil &&
		d.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus == types.PointInTimeRecoveryStatusEnabled, nil
}
