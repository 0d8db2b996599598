import java.io.File;
import net.openhft.chronicle.bytes.Bytes;
import net.openhft.chronicle.queue.ExcerptAppender;
import net.openhft.chronicle.queue.ExcerptTailer;
import net.openhft.chronicle.queue.impl.single.SingleChronicleQueue;
import net.openhft.chronicle.queue.impl.single.SingleChronicleQueueBuilder;

/**
 * Lets Chronicle Queue do what it does, so that seglog can be measured against it.
 *
 * <p>append DIRECTORY VALUE_BYTES RECORDS: append as many records of one size, one by one, unsynced (its only way: it
 * writes to a memory map). read DIRECTORY VALUE_BYTES RECORDS: read all of them back, in order. Either prints one JSON
 * object with the seconds, after a warm-up of as many calls that is not counted.
 */
public final class Append {
    private static final int WARM_UP = 200_000;

    private Append() {}

    public static void main(String[] arguments) {
        int size = Integer.parseInt(arguments[2]);
        int records = Integer.parseInt(arguments[3]);
        append(arguments[1] + ".warm", size, WARM_UP);
        read(arguments[1] + ".warm", size, WARM_UP);
        double seconds = arguments[0].equals("append")
                ? append(arguments[1], size, records)
                : read(arguments[1], size, records);
        System.out.println("{\"seconds\": " + seconds + "}");
        System.exit(0);
    }

    private static SingleChronicleQueue opened(String directory) {
        return SingleChronicleQueueBuilder.binary(new File(directory)).build();
    }

    private static double append(String directory, int size, int records) {
        Bytes<?> value = Bytes.wrapForRead(new byte[size]);
        try (SingleChronicleQueue queue = opened(directory); ExcerptAppender appender = queue.createAppender()) {
            long start = System.nanoTime();
            for (int number = 0; number < records; number++) {
                value.readPositionRemaining(0, size);
                appender.writeBytes(value);
            }
            return (System.nanoTime() - start) / 1e9;
        }
    }

    private static double read(String directory, int size, int records) {
        Bytes<?> into = Bytes.elasticByteBuffer(size);
        try (SingleChronicleQueue queue = opened(directory); ExcerptTailer tailer = queue.createTailer()) {
            long start = System.nanoTime();
            for (int number = 0; number < records; number++) {
                into.clear();
                if (!tailer.readBytes(into) || into.readRemaining() != size) {
                    throw new IllegalStateException("record " + number + " has " + into.readRemaining() + " bytes");
                }
            }
            return (System.nanoTime() - start) / 1e9;
        }
    }
}
