import java.io.BufferedInputStream;
import java.io.BufferedReader;
import java.io.DataInputStream;
import java.io.FileInputStream;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Fills topics for the benchmarks: `java -cp JARS Feed.java HOST:PORT`, then commands on its input, a line each.
 *
 *   create TOPIC PARTITIONS NAME=VALUE,...              settings of the topic
 *   delete TOPIC
 *   feed TOPIC PARTITIONS FILE KEY_BYTES VALUE_BYTES    a file of records of one length, key and value end to end, dealt out in turn
 *   seal TOPIC TIMESTAMP                                one record of that time (ms): later than segment.ms, it begins a new segment
 *
 * It says "ready" once it may be told. Each is answered by the line "done" once the broker has acknowledged all of it; a failure ends the program.
 */
public final class Feed {
    private final Admin admin;
    private final KafkaProducer<byte[], byte[]> producer;
    private final AtomicReference<Exception> failure = new AtomicReference<>();

    private Feed(String servers) {
        admin = Admin.create(Map.of("bootstrap.servers", servers));
        producer = new KafkaProducer<>(
            Map.of("bootstrap.servers", servers, "acks", "all", "linger.ms", 20, "batch.size", 1 << 18, "buffer.memory", 1L << 27),
            new ByteArraySerializer(), new ByteArraySerializer());
    }

    public static void main(String[] arguments) throws Exception {
        Feed feed = new Feed(arguments[0]);
        System.out.println("ready");
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            feed.run(line.split(" "));
            System.out.println("done");
        }
        System.exit(0);
    }

    private void run(String[] words) throws Exception {
        switch (words[0]) {
            case "create" -> create(words[1], Integer.parseInt(words[2]), words[3]);
            case "delete" -> admin.deleteTopics(List.of(words[1])).all().get();
            case "feed" -> feed(words[1], Integer.parseInt(words[2]), words[3], Integer.parseInt(words[4]), Integer.parseInt(words[5]));
            case "seal" -> send(words[1], 0, Long.parseLong(words[2]), "seal".getBytes(), new byte[0]);
            default -> throw new IllegalArgumentException(words[0]);
        }
        producer.flush();
        if (failure.get() != null) {
            throw failure.get();
        }
    }

    private void create(String topic, int partitions, String settings) throws Exception {
        Map<String, String> configs = Arrays.stream(settings.split(",")).map(one -> one.split("=", 2))
            .collect(Collectors.toMap(pair -> pair[0], pair -> pair[1]));
        admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1).configs(configs))).all().get();
    }

    private void feed(String topic, int partitions, String file, int keyBytes, int valueBytes) throws Exception {
        byte[] record = new byte[keyBytes + valueBytes];
        try (DataInputStream records = new DataInputStream(new BufferedInputStream(new FileInputStream(file), 1 << 20))) {
            for (int number = 0; records.readNBytes(record, 0, record.length) == record.length; number++) {
                byte[] key = Arrays.copyOf(record, keyBytes), value = Arrays.copyOfRange(record, keyBytes, record.length);
                send(topic, number % partitions, null, key, value);
            }
        }
    }

    private void send(String topic, int partition, Long timestamp, byte[] key, byte[] value) {
        producer.send(new ProducerRecord<>(topic, partition, timestamp, key, value), (sent, error) -> {
            if (error != null) {
                failure.compareAndSet(null, error);
            }
        });
    }
}
