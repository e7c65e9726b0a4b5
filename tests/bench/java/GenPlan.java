import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryArray;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.BinaryRowWriter;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.fs.Path;
import org.apache.paimon.io.CompactIncrement;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.io.DataIncrement;
import org.apache.paimon.manifest.FileSource;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.stats.SimpleStats;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.CommitMessageImpl;
import org.apache.paimon.types.DataTypes;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.UUID;

/**
 * The metadata of a primary-key table of very many files, without the data files. Arguments: WAREHOUSE TABLE FILES PARTITIONS
 * BUCKETS. Each of ten commits adds its share of the files to every bucket; ranges of keys do not overlap, levels vary.
 */
public class GenPlan {
    static final int COMMITS = 10;
    static final int VALUES = 8;
    static final int ROWS = 1000;

    public static void main(String[] args) throws Exception {
        int files = Integer.parseInt(args[2]);
        int partitions = Integer.parseInt(args[3]);
        int buckets = Integer.parseInt(args[4]);
        Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(new Path("file://" + args[0])));
        Identifier name = Identifier.create("db", args[1]);
        catalog.createDatabase("db", true);
        catalog.dropTable(name, true);
        catalog.createTable(name, schema(buckets), false);
        FileStoreTable table = (FileStoreTable) catalog.getTable(name);
        int share = files / COMMITS;
        for (int first = 0; first < files; first += share) {
            commit(table, first, Math.min(files, first + share), partitions, buckets);
        }
        System.exit(0);
    }

    static Schema schema(int buckets) {
        Schema.Builder schema = Schema.newBuilder();
        schema.column("day", DataTypes.STRING().notNull());
        schema.column("id", DataTypes.BIGINT().notNull());
        for (int i = 0; i < VALUES; i++) {
            schema.column("v" + i, i % 2 == 0 ? DataTypes.DOUBLE() : DataTypes.STRING());
        }
        schema.partitionKeys("day").primaryKey("day", "id");
        schema.option("bucket", String.valueOf(buckets)).option("write-only", "true");
        return schema.build();
    }

    static void commit(FileStoreTable table, int first, int last, int partitions, int buckets) throws Exception {
        List<List<DataFileMeta>> places = new ArrayList<>();
        for (int i = 0; i < partitions * buckets; i++) {
            places.add(new ArrayList<>());
        }
        for (int number = first; number < last; number++) {
            places.get(number % places.size()).add(file(number));
        }
        CompactIncrement none = new CompactIncrement(Collections.emptyList(), Collections.emptyList(), Collections.emptyList());
        List<CommitMessage> messages = new ArrayList<>();
        for (int place = 0; place < places.size(); place++) {
            DataIncrement added = new DataIncrement(places.get(place), Collections.emptyList(), Collections.emptyList());
            BinaryRow partition = new BinaryRow(1);
            BinaryRowWriter writer = new BinaryRowWriter(partition);
            writer.writeString(0, BinaryString.fromString(day(place / buckets)));
            writer.complete();
            messages.add(new CommitMessageImpl(partition, place % buckets, buckets, added, none));
        }
        try (BatchTableCommit commit = table.newBatchWriteBuilder().newCommit()) {
            commit.commit(messages);
        }
    }

    static String day(int partition) {
        return String.format("day-%06d", partition);
    }

    static DataFileMeta file(int number) {
        long low = (long) number * ROWS;
        long high = low + ROWS - 1;
        Long[] nulls = new Long[VALUES + 2];
        Arrays.fill(nulls, 0L);
        SimpleStats keys = new SimpleStats(key(low), key(high), BinaryArray.fromLongArray(new Long[] {0L}));
        SimpleStats values = new SimpleStats(row(low, 'a'), row(high, 'z'), BinaryArray.fromLongArray(nulls));
        String name = "data-" + new UUID(number * 0x9E3779B97F4A7C15L, number) + "-0.parquet";
        return DataFileMeta.create(
                name, 10_000_000L + number, ROWS, key(low), key(high), keys, values, low, high, 0L, number % 6,
                Collections.emptyList(), Timestamp.fromEpochMillis(1_795_000_000_000L + number), 0L, null,
                FileSource.APPEND, null, null, null, null);
    }

    static BinaryRow key(long id) {
        BinaryRow row = new BinaryRow(1);
        BinaryRowWriter writer = new BinaryRowWriter(row);
        writer.writeLong(0, id);
        writer.complete();
        return row;
    }

    static BinaryRow row(long id, char letter) {
        BinaryRow row = new BinaryRow(VALUES + 2);
        BinaryRowWriter writer = new BinaryRowWriter(row);
        writer.writeString(0, BinaryString.fromString(day(0)));
        writer.writeLong(1, id);
        for (int i = 0; i < VALUES; i++) {
            if (i % 2 == 0) {
                writer.writeDouble(i + 2, id * 0.25);
            } else {
                writer.writeString(i + 2, BinaryString.fromString(letter + " value " + id % 100_000));
            }
        }
        writer.complete();
        return row;
    }
}
