// Uses every feature of a broker by franz-go, and prints "FEATURE ok" or "FEATURE ERROR" for each.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const records = 100

var seeds kgo.Opt

func main() {
	seeds = kgo.SeedBrokers(os.Args[1])
	topic := os.Args[2]
	report("admin", func(ctx context.Context) error { return admin(ctx, topic) })
	report("produce", func(ctx context.Context) error {
		return produce(ctx, topic, kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()))
	})
	report("idempotent", func(ctx context.Context) error { return produce(ctx, topic) })
	report("transactional", func(ctx context.Context) error { return transactional(ctx, topic) })
	report("consume", func(ctx context.Context) error { return consume(ctx, topic) })
	report("group", func(ctx context.Context) error { return group(ctx, "g-"+topic, topic) })
	report("new_group_protocol", func(ctx context.Context) error {
		return group(ctx, "n-"+topic, topic, kgo.ServerSideBalancer())
	})
}

func report(feature string, use func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := use(ctx); err != nil {
		fmt.Println(feature, err)
		return
	}
	fmt.Println(feature, "ok")
}

func admin(ctx context.Context, topic string) error {
	client, err := kgo.NewClient(seeds)
	if err != nil {
		return err
	}
	defer client.Close()
	adm := kadm.NewClient(client)
	bytes := "1000000000"
	if _, err := adm.CreateTopic(ctx, 2, 1, map[string]*string{"retention.bytes": &bytes}, topic); err != nil {
		return err
	}
	if _, err := adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "retention.ms", Value: &bytes}}, topic); err != nil {
		return err
	}
	configs, err := adm.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return err
	}
	return configs[0].Err
}

func produce(ctx context.Context, topic string, options ...kgo.Opt) error {
	client, err := kgo.NewClient(append(options, seeds)...)
	if err != nil {
		return err
	}
	defer client.Close()
	for i := 0; i < records; i++ {
		value := []byte(fmt.Sprint(i))
		if err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Key: value, Value: value}).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}

// Aborts a transaction and commits one with offsets of a group; only what was committed is there.
func transactional(ctx context.Context, topic string) error {
	target := topic + "-transactions"
	client, err := kgo.NewClient(seeds, kgo.TransactionalID("x-"+topic), kgo.AllowAutoTopicCreation())
	if err != nil {
		return err
	}
	defer client.Close()
	for _, end := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
		if err := client.BeginTransaction(); err != nil {
			return err
		}
		for i := 0; i < records; i++ {
			value := []byte(fmt.Sprint(bool(end), i))
			if err := client.ProduceSync(ctx, &kgo.Record{Topic: target, Value: value}).FirstErr(); err != nil {
				return err
			}
		}
		if err := client.EndTransaction(ctx, end); err != nil {
			return err
		}
	}
	start := kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())
	reader, err := kgo.NewClient(seeds, kgo.ConsumeTopics(target), start, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return err
	}
	defer reader.Close()
	for got := 0; got < records; {
		fetches := reader.PollFetches(ctx)
		if errs := fetches.Errors(); len(errs) > 0 {
			return errs[0].Err
		}
		for _, record := range fetches.Records() {
			if want := fmt.Sprint(true, got); string(record.Value) != want {
				return fmt.Errorf("%s instead of %s", record.Value, want)
			}
			got++
		}
	}
	return nil
}

func read(ctx context.Context, client *kgo.Client) error {
	for got := 0; got < 2*records; {
		fetches := client.PollFetches(ctx)
		if errs := fetches.Errors(); len(errs) > 0 {
			return errs[0].Err
		}
		got += fetches.NumRecords()
	}
	return nil
}

func consume(ctx context.Context, topic string) error {
	client, err := kgo.NewClient(seeds, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer client.Close()
	return read(ctx, client)
}

func group(ctx context.Context, name, topic string, options ...kgo.Opt) error {
	start := kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())
	options = append(options, seeds, kgo.ConsumeTopics(topic), kgo.ConsumerGroup(name), start, kgo.DisableAutoCommit())
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := read(ctx, client); err != nil {
		return err
	}
	if err := client.CommitUncommittedOffsets(ctx); err != nil {
		return err
	}
	lags, err := kadm.NewClient(client).Lag(ctx, name)
	if err != nil {
		return err
	}
	if lag := lags[name].Lag.Total(); lag != 0 {
		return fmt.Errorf("the lag is %d", lag)
	}
	return nil
}
