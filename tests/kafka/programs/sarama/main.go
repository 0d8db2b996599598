// Uses every feature of a broker by sarama, and prints "FEATURE ok" or "FEATURE ERROR" for each.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"
)

const records = 100

var (
	brokers []string
	topic   string
)

func main() {
	brokers, topic = []string{os.Args[1]}, os.Args[2]
	report("admin", admin)
	report("produce", func(config *sarama.Config) error { return produce(config) })
	report("idempotent", func(config *sarama.Config) error {
		config.Producer.Idempotent = true
		config.Producer.RequiredAcks = sarama.WaitForAll
		config.Net.MaxOpenRequests = 1
		return produce(config)
	})
	report("transactional", transactional)
	report("consume", consume)
	report("group", group)
}

func report(feature string, use func(*sarama.Config) error) {
	config := sarama.NewConfig()
	config.Version = sarama.V4_0_0_0
	config.Producer.Return.Successes = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	if err := use(config); err != nil {
		fmt.Println(feature, err)
		return
	}
	fmt.Println(feature, "ok")
}

func admin(config *sarama.Config) error {
	client, err := sarama.NewClusterAdmin(brokers, config)
	if err != nil {
		return err
	}
	defer client.Close()
	bytes := "1000000000"
	entries := map[string]*string{"retention.bytes": &bytes}
	detail := sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1, ConfigEntries: entries}
	if err := client.CreateTopic(topic, &detail, false); err != nil {
		return err
	}
	if err := client.AlterConfig(sarama.TopicResource, topic, entries, false); err != nil {
		return err
	}
	_, err = client.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic})
	return err
}

func produce(config *sarama.Config) error {
	producer, err := sarama.NewSyncProducer(brokers, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	for i := 0; i < records; i++ {
		message := sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(fmt.Sprint(i))}
		if _, _, err := producer.SendMessage(&message); err != nil {
			return err
		}
	}
	return nil
}

// Aborts a transaction and commits one; only what was committed is there.
func transactional(config *sarama.Config) error {
	target := topic + "-transactions"
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Transaction.ID = "x-" + topic
	config.Net.MaxOpenRequests = 1
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	producer, err := sarama.NewSyncProducer(brokers, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	for _, commit := range []bool{false, true} {
		if err := producer.BeginTxn(); err != nil {
			return err
		}
		for i := 0; i < records; i++ {
			value := sarama.StringEncoder(fmt.Sprint(commit, i))
			if _, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: target, Value: value}); err != nil {
				return err
			}
		}
		end := producer.AbortTxn
		if commit {
			end = producer.CommitTxn
		}
		if err := end(); err != nil {
			return err
		}
	}
	consumer, err := sarama.NewConsumer(brokers, config)
	if err != nil {
		return err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(target, 0, 0)
	if err != nil {
		return err
	}
	for i := 0; i < records; i++ {
		select {
		case message := <-partition.Messages():
			if want := fmt.Sprint(true, i); string(message.Value) != want {
				return fmt.Errorf("%s instead of %s", message.Value, want)
			}
		case <-time.After(20 * time.Second):
			return fmt.Errorf("%d of %d records", i, records)
		}
	}
	return nil
}

func consume(config *sarama.Config) error {
	consumer, err := sarama.NewConsumer(brokers, config)
	if err != nil {
		return err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(topic, 0, 0)
	if err != nil {
		return err
	}
	for i := 0; i < 2*records; i++ {
		select {
		case <-partition.Messages():
		case <-time.After(20 * time.Second):
			return fmt.Errorf("%d of %d records", i, 2*records)
		}
	}
	return nil
}

type handler struct {
	got  int
	done chan struct{}
}

func (h *handler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (h *handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h *handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
		if h.got++; h.got == 2*records {
			session.Commit()
			close(h.done)
			return nil
		}
	}
	return nil
}

func group(config *sarama.Config) error {
	consumer, err := sarama.NewConsumerGroup(brokers, "g-"+topic, config)
	if err != nil {
		return err
	}
	defer consumer.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	h := &handler{done: make(chan struct{})}
	go consumer.Consume(ctx, []string{topic}, h)
	select {
	case <-h.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%d of %d records", h.got, 2*records)
	}
}
