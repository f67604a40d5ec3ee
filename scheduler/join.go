package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/coordinator"
	"github.com/go-kcl/kcl/internal/ddb"
	"github.com/go-kcl/kcl/internal/wait"
	"github.com/go-kcl/kcl/leader"
	"github.com/go-kcl/kcl/metrics"
	"github.com/go-kcl/kcl/migration/singletable"
	"github.com/go-kcl/kcl/shardsync"
	"github.com/go-kcl/kcl/workermetrics"
)

// The name and version that calls to AWS carry in their user agent.
const (
	userAgent = "amazon-kinesis-client-library-go"
	version   = "0.1.0"
)

// clients returns the configured clients, or makes them.
func (s *Scheduler) clients() (*kinesis.Client, *dynamodb.Client) {
	agent := awsmiddleware.AddUserAgentKeyValue(userAgent, version)
	k, d := s.cfg.Kinesis, s.cfg.DynamoDB
	if k == nil {
		k = kinesis.NewFromConfig(s.cfg.AWS, func(o *kinesis.Options) { o.APIOptions = append(slices.Clone(o.APIOptions), agent) })
	}
	if d == nil {
		d = dynamodb.NewFromConfig(s.cfg.AWS, func(o *dynamodb.Options) { o.APIOptions = append(slices.Clone(o.APIOptions), agent) })
	}
	return k, d
}

// join makes this process a worker of the fleet. Each attempt goes through all
// steps; what an earlier one did is found done.
func (s *Scheduler) join(values context.Context) (*worker, error) {
	ctx, cancel := context.WithCancel(values)
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)()

	k, d := s.clients()
	table := ddb.NewTable(ddb.TableConfig{
		Client: d, Table: s.cfg.Table.Name, RequestTimeout: s.cfg.Leases.RequestTimeout,
		BillingMode: s.cfg.Table.BillingMode, ReadCapacity: s.cfg.Table.ReadCapacity, WriteCapacity: s.cfg.Table.WriteCapacity,
		DeletionProtection: s.cfg.Table.DeletionProtection, PITR: s.cfg.Table.PointInTimeRecovery, Tags: s.cfg.Table.Tags,
		Created: s.cfg.Table.Created, Logger: s.log,
	})
	var leads *leadership // made before the machine runs
	machine, err := newMachine(s.cfg, d, func() *leader.Decider { return leads.Decider })
	if err != nil {
		return nil, err
	}
	workers := newWorkers(s.cfg, d, machine)
	reporter := workermetrics.NewReporter(workermetrics.ReporterConfig{
		Store: workers, Worker: s.cfg.WorkerIdentifier, Load: s.sampler.Load, Support: singletable.SupportCode,
		Logger: s.cfg.Logger, Metrics: s.cfg.Metrics,
	})

	var info ddb.TableInfo
	for attempt := 1; ; attempt++ {
		if info, err = s.attempt(ctx, k, d, table, machine, workers, reporter); err == nil {
			break
		}
		if ctx.Err() != nil || attempt >= s.cfg.MaxInitializationAttempts || isFatal(err) {
			break
		}
		level := slog.LevelDebug
		if attempt == 1 {
			level = slog.LevelWarn
		}
		s.log.Log(ctx, level, "start failed, tried again", "attempt", attempt, "err", err)
		if !wait.For(ctx, s.cfg.SchedulerInitializationBackoff) {
			break
		}
	}
	started := 0.0
	if err == nil {
		started = 1
	}
	metrics.Scope{Recorder: s.cfg.Metrics, Operation: "Scheduler:Initialize"}.Count("Initialize.Success", started, metrics.Summary)
	if err != nil {
		s.withdraw(values, reporter)
		return nil, fmt.Errorf("worker %s could not start: %w", s.cfg.WorkerIdentifier, err)
	}
	if leads, err = newLeadership(s.cfg, d, machine); err != nil {
		return nil, err
	}
	return newWorker(values, s, k, d, info, leads, workers, reporter)
}

// withdraw deletes the record of a worker that has not joined, lest it be given
// leases. It makes no call unless a report was sent.
func (s *Scheduler) withdraw(values context.Context, reporter *workermetrics.Reporter) {
	ctx, cancel := context.WithTimeout(values, lastCalls)
	defer cancel()
	if _, err := reporter.Delete(ctx); err != nil {
		s.log.Warn("worker's record not deleted", "err", err)
	}
}

// attempt is one try to join.
func (s *Scheduler) attempt(ctx context.Context, k *kinesis.Client, d *dynamodb.Client, table *ddb.Table,
	machine *singletable.Machine, workers *workermetrics.Store, reporter *workermetrics.Reporter) (ddb.TableInfo, error) {
	info, err := table.Prepare(ctx)
	if err != nil {
		return info, err
	}
	if _, err := machine.Start(ctx, s.cfg.noLegacyTables()); err != nil {
		return info, err
	}
	coordination, err := state(s.cfg, d, machine)
	if err != nil {
		return info, err
	}
	if err := coordination.Start(ctx, s.cfg.WorkerIdentifier); err != nil {
		return info, err
	}
	if err := s.checkStream(ctx, k); err != nil {
		return info, err
	}
	if err := table.PrepareIndex(ctx); err != nil {
		return info, err
	}
	if err := s.checkScan(ctx, d); err != nil {
		return info, err
	}
	if err := workers.Init(ctx); err != nil {
		return info, err
	}
	return info, reporter.Report(ctx)
}

// checkScan finds out at the start whether this role may scan the lease table. A
// leader that may not would never assign a lease. Any other failure passes.
func (s *Scheduler) checkScan(ctx context.Context, d *dynamodb.Client) error {
	_, err := ddb.Call(ctx, s.cfg.Leases.RequestTimeout, "scan table "+s.cfg.Table.Name, func(ctx context.Context) (*dynamodb.ScanOutput, error) {
		return d.Scan(ctx, &dynamodb.ScanInput{TableName: &s.cfg.Table.Name, Limit: aws.Int32(1)})
	})
	if ddb.Denied(err) {
		return err
	}
	return nil
}

// checkStream finds a misspelt stream before anything waits for it. A role that
// may not describe the stream does without.
func (s *Scheduler) checkStream(ctx context.Context, k *kinesis.Client) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Polling.RequestTimeout)
	defer cancel()
	in := &kinesis.DescribeStreamSummaryInput{StreamName: &s.stream.Stream.Name}
	if s.stream.Stream.ARN != "" {
		in.StreamARN = &s.stream.Stream.ARN
	}
	_, err := k.DescribeStreamSummary(ctx, in)
	switch ddb.Code(err) {
	case "ResourceNotFoundException":
		return fmt.Errorf("stream %s: %w: %w", s.stream.Stream, shardsync.ErrStreamNotFound, err)
	case "AccessDeniedException", "LimitExceededException":
		return nil
	}
	if err != nil {
		return fmt.Errorf("stream %s: %w: %w", s.stream.Stream, kcl.ErrDependency, err)
	}
	s.found = true
	return nil
}

// isFatal reports whether an error will still be there at the next try.
func isFatal(err error) bool {
	switch {
	case errors.Is(err, coordinator.ErrRefused),
		errors.Is(err, coordinator.ErrMalformed),
		errors.Is(err, singletable.ErrDenied),
		errors.Is(err, singletable.ErrInconsistent),
		errors.Is(err, shardsync.ErrStreamNotFound),
		errors.Is(err, ddb.ErrUnsuitable):
		return true
	}
	switch ddb.Code(err) {
	case "AccessDeniedException", "UnrecognizedClientException", "InvalidSignatureException",
		"IncompleteSignature", "MissingAuthenticationTokenException", "MissingAuthenticationToken",
		"InvalidClientTokenId", "ExpiredTokenException", "OptInRequired",
		"ValidationException", "InvalidArgumentException":
		return true
	}
	return false
}
