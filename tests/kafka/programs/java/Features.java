import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Uses every feature of a broker by Kafka's Java clients: HOST:PORT TOPIC; prints "FEATURE ok" or "FEATURE ERROR" for each. */
public final class Features {
    private static final int RECORDS = 100;
    private static final Duration SECONDS = Duration.ofSeconds(30);
    private final String servers;
    private final String topic;

    private Features(String servers, String topic) {
        this.servers = servers;
        this.topic = topic;
    }

    private interface Use {
        void run() throws Exception;
    }

    public static void main(String[] arguments) {
        Features features = new Features(arguments[0], arguments[1]);
        report("admin", features::admin);
        report("produce", () -> features.produce(Map.of("acks", "1", "enable.idempotence", false)));
        report("idempotent", () -> features.produce(Map.of("acks", "all")));
        report("consume", features::consume);
        report("group", () -> features.group("classic", "g-"));
        if (List.of(arguments).contains("consumer")) {
            report("new_group_protocol", () -> features.group("consumer", "n-"));
        }
        if (List.of(arguments).contains("transactional")) {
            report("transactional", features::transactional);
        }
        System.exit(0); // a client that failed may have threads
    }

    private static void report(String feature, Use use) {
        try {
            use.run();
            System.out.println(feature + " ok");
        } catch (Throwable error) {
            System.out.println(feature + " " + String.valueOf(error).lines().findFirst().orElse(""));
        }
    }

    private void admin() throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
            NewTopic wanted = new NewTopic(topic, 1, (short) 1).configs(Map.of("retention.bytes", "1000000000"));
            admin.createTopics(List.of(wanted)).all().get(30, TimeUnit.SECONDS);
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(2))).all().get(30, TimeUnit.SECONDS);
            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            AlterConfigOp change = new AlterConfigOp(new ConfigEntry("retention.ms", "77"), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get(30, TimeUnit.SECONDS);
            String found = admin.describeConfigs(List.of(resource)).all().get(30, TimeUnit.SECONDS).get(resource).get("retention.ms").value();
            check(found.equals("77"), "retention.ms is " + found);
            AlterConfigOp back = new AlterConfigOp(new ConfigEntry("retention.ms", null), AlterConfigOp.OpType.DELETE);
            admin.incrementalAlterConfigs(Map.of(resource, List.of(back))).all().get(30, TimeUnit.SECONDS);
            admin.deleteRecords(Map.of(new TopicPartition(topic, 1), RecordsToDelete.beforeOffset(0))).all().get(30, TimeUnit.SECONDS);
            check(admin.describeCluster().nodes().get(30, TimeUnit.SECONDS).size() == 1, "there is not one node");
        }
    }

    private KafkaProducer<String, String> producer(Map<String, Object> options) {
        Map<String, Object> all = new java.util.HashMap<>(options);
        all.put("bootstrap.servers", servers);
        return new KafkaProducer<>(all, new StringSerializer(), new StringSerializer());
    }

    private void send(KafkaProducer<String, String> producer, String value) throws Exception {
        for (int number = 0; number < RECORDS; number++) {
            producer.send(new ProducerRecord<>(topic, "k" + number, value + number)).get(30, TimeUnit.SECONDS);
        }
    }

    private void produce(Map<String, Object> options) throws Exception {
        try (KafkaProducer<String, String> producer = producer(options)) {
            send(producer, "");
        }
    }

    private KafkaConsumer<String, String> consumer(Map<String, Object> options) {
        Map<String, Object> all = new java.util.HashMap<>(options);
        all.put("bootstrap.servers", servers);
        all.put("auto.offset.reset", "earliest");
        all.put("enable.auto.commit", false);
        return new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer());
    }

    private static int read(KafkaConsumer<String, String> consumer, int wanted) {
        int found = 0;
        for (long ends = System.nanoTime() + SECONDS.toNanos(); found < wanted && System.nanoTime() < ends;) {
            for (ConsumerRecord<String, String> one : consumer.poll(Duration.ofMillis(200))) {
                check(!one.value().startsWith("aborted"), "an aborted record was read");
                found++;
            }
        }
        check(found == wanted, found + " records instead of " + wanted);
        return found;
    }

    private void consume() {
        try (KafkaConsumer<String, String> consumer = consumer(Map.of())) {
            consumer.assign(List.of(new TopicPartition(topic, 0), new TopicPartition(topic, 1)));
            read(consumer, 2 * RECORDS);
        }
    }

    private void group(String protocol, String name) {
        try (KafkaConsumer<String, String> consumer = consumer(Map.of("group.id", name + topic, "group.protocol", protocol))) {
            consumer.subscribe(List.of(topic));
            read(consumer, 2 * RECORDS);
            consumer.commitSync();
            long lag = consumer.assignment().stream().mapToLong(one -> consumer.currentLag(one).orElse(-1)).sum();
            check(lag == 0, "the lag is " + lag);
        }
    }

    /** One aborted and one committed transaction, whose offsets are committed with it, read by a consumer that reads committed ones only. */
    private void transactional() throws Exception {
        String group = "t-" + topic;
        TopicPartition place = new TopicPartition(topic, 0);
        try (KafkaProducer<String, String> producer = producer(Map.of("transactional.id", "x-" + topic));
                KafkaConsumer<String, String> member = consumer(Map.of("group.id", group))) {
            producer.initTransactions();
            producer.beginTransaction();
            send(producer, "aborted");
            producer.abortTransaction();
            producer.beginTransaction();
            send(producer, "committed");
            producer.sendOffsetsToTransaction(Map.of(place, new OffsetAndMetadata(7)), member.groupMetadata());
            producer.commitTransaction();
            long offset = member.committed(java.util.Set.of(place)).get(place).offset();
            check(offset == 7, "the committed offset is " + offset);
        }
        try (KafkaConsumer<String, String> consumer = consumer(Map.of("isolation.level", "read_committed"))) {
            consumer.assign(List.of(place, new TopicPartition(topic, 1)));
            read(consumer, 3 * RECORDS);
        }
    }

    private static void check(boolean holds, String why) {
        if (!holds) {
            throw new IllegalStateException(why);
        }
    }
}
