package scheduler_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
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

// exampleLegacyTables makes what workers of KCL 3.0 to 3.4 leave when they stop.
func exampleLegacyTables(cfg aws.Config, application string) {
	client := dynamodb.NewFromConfig(cfg)
	for name, key := range map[string]string{application + "-CoordinatorState": "key", application + "-WorkerMetricStats": "wid"} {
		_, err := client.CreateTable(context.Background(), &dynamodb.CreateTableInput{
			TableName: &name, BillingMode: types.BillingModePayPerRequest,
			KeySchema:            []types.KeySchemaElement{{AttributeName: &key, KeyType: types.KeyTypeHash}},
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: &key, AttributeType: types.ScalarAttributeTypeS}},
		})
		if err != nil {
			panic(err)
		}
	}
	str := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	_, err := client.PutItem(context.Background(), &dynamodb.PutItemInput{
		TableName: aws.String(application + "-CoordinatorState"),
		Item: map[string]types.AttributeValue{
			"key": str("Migration3.0"), "cv": str("CLIENT_VERSION_3X"), "mb": str("host-1"), "mts": &types.AttributeValueMemberN{Value: "1764547200000"},
		},
	})
	if err != nil {
		panic(err)
	}
}

func report(err error) {
	if err != nil {
		fmt.Println("failed:", err)
	}
}
