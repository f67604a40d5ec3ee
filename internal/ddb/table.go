package ddb

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/entity"
)

const (
	tableTimeout = 600 * time.Second // KCL's; a table with an index takes about 20 s
	tablePoll    = 500 * time.Millisecond
)

// TableConfig says how the lease table is to be. Of an existing table only
// PITR is changed.
type TableConfig struct {
	Client *dynamodb.Client
	Table  string
	// RequestTimeout bounds each call; 0 means 60 s.
	RequestTimeout time.Duration
	// BillingMode is PAY_PER_REQUEST if empty.
	BillingMode types.BillingMode
	// ReadCapacity and WriteCapacity, in units, count if BillingMode is
	// PROVISIONED; they are given to the index as well.
	ReadCapacity, WriteCapacity int64
	DeletionProtection          bool
	// PITR turns point-in-time recovery on.
	PITR bool
	Tags map[string]string
	// Created is called once when this process has created the table and the
	// table is ACTIVE. Its error fails the preparation, and it is called again
	// when that is repeated.
	Created func(ctx context.Context, client *dynamodb.Client, table string) error
	Logger  *slog.Logger // nil discards
}

// Table sets the lease table up. Its methods may be repeated after an error;
// they are not to be called concurrently.
type Table struct {
	cfg     TableConfig
	log     *slog.Logger
	created bool // by this process
	told    bool // Created has been called
}

// TableInfo is what is known of the table once it is ready.
type TableInfo struct {
	ARN string
	// Provisioned is false for a table that is billed on demand.
	Provisioned bool
	// SizeBytes is up to 6 hours old.
	SizeBytes int64
	// Created: by this process.
	Created bool
}

// NewTable does no I/O.
func NewTable(cfg TableConfig) *Table {
	if cfg.RequestTimeout <= 0 {
		cfg.RequestTimeout = 60 * time.Second
	}
	if cfg.BillingMode == "" {
		cfg.BillingMode = types.BillingModePayPerRequest
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Table{cfg: cfg, log: log.With("table", cfg.Table)}
}

// Prepare creates the table with its index unless it exists, waits up to 600 s
// until it can be used, and turns on point-in-time recovery if that is asked
// for. An index that an existing table lacks is a matter of
// [Table.PrepareIndex].
func (t *Table) Prepare(ctx context.Context) (TableInfo, error) {
	var desc *types.TableDescription
	ready, err := poll(ctx, tableTimeout, steadily(tablePoll), func(ctx context.Context) (ready bool, err error) {
		if desc, err = t.describe(ctx); err != nil {
			return false, err
		}
		if desc == nil {
			if err := t.create(ctx); err != nil {
				return false, err
			}
			if desc, err = t.describe(ctx); err != nil {
				return false, err
			}
		}
		switch state(desc) {
		case usable:
			return true, checkKey(desc)
		case unusable:
			return false, fmt.Errorf("table %s is %s: %w", t.cfg.Table, desc.TableStatus, kcl.ErrInvalidState)
		default:
			return false, nil
		}
	})
	if err == nil && !ready {
		err = fmt.Errorf("table %s is not ACTIVE after %s: %w", t.cfg.Table, tableTimeout, kcl.ErrDependency)
	}
	if err != nil {
		return TableInfo{}, err
	}
	if t.created && !t.told && t.cfg.Created != nil {
		if err := t.cfg.Created(ctx, t.cfg.Client, t.cfg.Table); err != nil {
			return TableInfo{}, fmt.Errorf("callback for the new table %s: %w", t.cfg.Table, err)
		}
		t.told = true
	}
	if t.cfg.PITR {
		if err := t.enableBackups(ctx); err != nil {
			return TableInfo{}, err
		}
	}
	return TableInfo{
		ARN:         aws.ToString(desc.TableArn),
		Provisioned: throughput(desc) != nil,
		SizeBytes:   aws.ToInt64(desc.TableSizeBytes),
		Created:     t.created,
	}, nil
}

type tableState uint8

const (
	changing tableState = iota // on its way to another state, or not there yet
	usable
	unusable // and will not change by itself
)

// state says what can be done with a table; nil is one that does not exist, or
// not show yet. A table that is being deleted is waited for, then created anew.
func state(desc *types.TableDescription) tableState {
	if desc == nil {
		return changing
	}
	switch desc.TableStatus {
	case types.TableStatusActive, types.TableStatusUpdating:
		return usable
	case types.TableStatusCreating, types.TableStatusDeleting:
		return changing
	default:
		return unusable
	}
}

// describe returns nil if there is no table.
func (t *Table) describe(ctx context.Context) (*types.TableDescription, error) {
	out, err := Call(ctx, t.cfg.RequestTimeout, "describe table "+t.cfg.Table, func(ctx context.Context) (*dynamodb.DescribeTableOutput, error) {
		return t.cfg.Client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &t.cfg.Table})
	})
	if notFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return out.Table, nil
}

// create asks for the table. That another worker was quicker is success.
func (t *Table) create(ctx context.Context) error {
	_, err := Call(ctx, t.cfg.RequestTimeout, "create table "+t.cfg.Table, func(ctx context.Context) (*dynamodb.CreateTableOutput, error) {
		return t.cfg.Client.CreateTable(ctx, t.createInput())
	})
	if Code(err) == "ResourceInUseException" {
		return nil
	}
	if err == nil {
		t.created, t.told = true, false
		t.log.InfoContext(ctx, "lease table created", "billing", t.cfg.BillingMode)
	}
	return err
}

// createInput asks for the index in the same call: added later, it takes
// DynamoDB minutes.
func (t *Table) createInput() *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{
		TableName: &t.cfg.Table,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String(entity.LeaseTableKey), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String(ownerAttribute), AttributeType: types.ScalarAttributeTypeS},
		},
		KeySchema:                 []types.KeySchemaElement{{AttributeName: aws.String(entity.LeaseTableKey), KeyType: types.KeyTypeHash}},
		BillingMode:               t.cfg.BillingMode,
		DeletionProtectionEnabled: aws.Bool(t.cfg.DeletionProtection),
	}
	if t.cfg.BillingMode == types.BillingModeProvisioned {
		in.ProvisionedThroughput = &types.ProvisionedThroughput{
			ReadCapacityUnits: &t.cfg.ReadCapacity, WriteCapacityUnits: &t.cfg.WriteCapacity,
		}
	}
	in.GlobalSecondaryIndexes = []types.GlobalSecondaryIndex{{
		IndexName:             aws.String(OwnerIndex),
		KeySchema:             indexKey(),
		Projection:            indexProjection(),
		ProvisionedThroughput: in.ProvisionedThroughput,
	}}
	for _, k := range slices.Sorted(maps.Keys(t.cfg.Tags)) {
		in.Tags = append(in.Tags, types.Tag{Key: aws.String(k), Value: aws.String(t.cfg.Tags[k])})
	}
	return in
}

// checkKey returns an error unless the table is keyed as a lease table is.
func checkKey(desc *types.TableDescription) error {
	want := entity.LeaseTableKey + " (HASH, S)"
	if have := describeKey(desc.KeySchema, desc.AttributeDefinitions); have != want {
		return fmt.Errorf("table %s cannot be the lease table: its key is %s, not %s; another application's table has this name: %w",
			aws.ToString(desc.TableName), have, want, ErrUnsuitable)
	}
	return nil
}

func describeKey(key []types.KeySchemaElement, defs []types.AttributeDefinition) string {
	var parts []string
	for _, k := range key {
		kind := "?"
		for _, d := range defs {
			if aws.ToString(d.AttributeName) == aws.ToString(k.AttributeName) {
				kind = string(d.AttributeType)
			}
		}
		parts = append(parts, fmt.Sprintf("%s (%s, %s)", aws.ToString(k.AttributeName), k.KeyType, kind))
	}
	return strings.Join(parts, " + ")
}

// throughput returns the table's own read and write units, or nil if it is
// billed on demand. A table without a billing summary was always provisioned;
// emulators that know no billing modes report 0 units.
func throughput(desc *types.TableDescription) *types.ProvisionedThroughput {
	if b := desc.BillingModeSummary; b != nil && b.BillingMode == types.BillingModePayPerRequest {
		return nil
	}
	p := desc.ProvisionedThroughput
	if p == nil || aws.ToInt64(p.ReadCapacityUnits) == 0 {
		return nil
	}
	return &types.ProvisionedThroughput{ReadCapacityUnits: p.ReadCapacityUnits, WriteCapacityUnits: p.WriteCapacityUnits}
}

// ConsumerID returns the identifier of a fleet, derived from the ARN of its
// lease table, that Kinesis calls carry in their user agent. It is empty
// without an ARN.
func ConsumerID(tableARN string) string {
	if tableARN == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(tableARN))
	return "KCL-ConsumerId-" + base64.StdEncoding.EncodeToString(sum[:])[:16]
}
