package scheduler_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/go-kcl/kcl/kcltest"
)

// The examples run against the AWS in this process. A program of your own
// gets its aws.Config from config.LoadDefaultConfig.
func exampleAWS(records ...string) aws.Config {
	emulated := kcltest.New(kcltest.Options{Delays: kcltest.NoDelays})
	if err := emulated.CreateStream("orders-stream", 1); err != nil {
		panic(err)
	}
	producer := kinesis.NewFromConfig(emulated.Config("producer"))
	for _, data := range records {
		_, err := producer.PutRecord(context.Background(), &kinesis.PutRecordInput{
			StreamName: aws.String("orders-stream"), PartitionKey: aws.String("key"), Data: []byte(data),
		})
		if err != nil {
			panic(err)
		}
	}
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the examples' output is checked
	return emulated.Config("worker")
}

func report(err error) {
	if err != nil {
		fmt.Println("failed:", err)
	}
}
