import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.Path;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.types.DataTypes;

import java.util.ArrayList;
import java.util.List;

/**
 * Tables of the benches. Arguments: WAREHOUSE ROWS RUNS TABLE[,TABLE]; a table is named by its kind and number of buckets: pk
 * (deduplicate), pu (partial-update), agg (aggregation), lkp (deduplicate with a lookup changelog); each of RUNS commits (or of
 * as many as a second number says: pk4_3) holds a random quarter of the key space, in random order. seq: each commit holds keys of its own, above those of
 * the one before; late: so too, and a last commit holds a tenth of the last keys again. app: 400 files without a key; app_12: 12 files.
 * top, flat: one commit with all keys, and, when Gen is called again, as many of updates as the second number says: of keys in the last
 * twelfth (top), or of all keys (flat).
 */
public class Gen {
    static final int APPEND_FILES = 400;
    static final String[] CITIES = new String[1000];

    static {
        for (int i = 0; i < CITIES.length; i++) {
            CITIES[i] = "city_" + Integer.toString(i * 7919 % 100000, 36);
        }
    }

    static long mix(long z) {
        z = (z ^ (z >>> 33)) * 0xff51afd7ed558ccdL;
        z = (z ^ (z >>> 33)) * 0xc4ceb9fe1a85ec53L;
        return z ^ (z >>> 33);
    }

    static InternalRow row(long id, long version) {
        long a = mix(id * 31 + version * 1_000_003 + 7), b = mix(a + 1), c = mix(a + 2);
        return GenericRow.of(
                id,
                (int) (a & 0x7fffffff),
                (int) ((a >>> 32) % 1000),
                b >>> 20,
                (b & 0xfffff) / 16.0,
                Double.longBitsToDouble((c >>> 12) | 0x3ff0000000000000L),
                BinaryString.fromString(CITIES[(int) ((c >>> 8) % 1000 + 1000) % 1000]),
                BinaryString.fromString(Long.toString(c & 0xfffffffffL, 36)),
                Decimal.fromUnscaledLong((a >>> 16) % 10_000_000_000L, 18, 2),
                Timestamp.fromMicros(1_700_000_000_000_000L + id * 1000 + version * 1_000_000L + (a & 0xff)),
                (a & 64) == 0 ? null : (Object) ((a & 128) != 0));
    }

    static void options(String kind, Schema.Builder builder) {
        switch (kind) {
            case "pu":
                builder.option("merge-engine", "partial-update");
                break;
            case "agg":
                builder.option("merge-engine", "aggregation")
                        .option("fields.c_int.aggregate-function", "min")
                        .option("fields.c_small.aggregate-function", "max")
                        .option("fields.c_big.aggregate-function", "sum")
                        .option("fields.c_d1.aggregate-function", "min")
                        .option("fields.c_d2.aggregate-function", "max")
                        .option("fields.c_dec.aggregate-function", "sum")
                        .option("fields.c_flag.aggregate-function", "bool_or");
                break;
            case "lkp":
                builder.option("changelog-producer", "lookup");
                break;
            default:
        }
    }

    static Schema schema(String kind, int buckets) {
        boolean keyed = !kind.equals("app");
        Schema.Builder builder = Schema.newBuilder()
                .column("id", keyed ? DataTypes.BIGINT().notNull() : DataTypes.BIGINT())
                .column("c_int", DataTypes.INT())
                .column("c_small", DataTypes.INT())
                .column("c_big", DataTypes.BIGINT())
                .column("c_d1", DataTypes.DOUBLE())
                .column("c_d2", DataTypes.DOUBLE())
                .column("c_city", DataTypes.STRING())
                .column("c_name", DataTypes.STRING())
                .column("c_dec", DataTypes.DECIMAL(18, 2))
                .column("c_ts", DataTypes.TIMESTAMP(6))
                .column("c_flag", DataTypes.BOOLEAN())
                .option("bucket", "" + buckets)
                .option("file.format", "parquet")
                .option("file.compression", "zstd")
                .option("write-only", "true");
        options(kind, builder);
        return (keyed ? builder.primaryKey("id") : builder).build();
    }

    public static void main(String[] args) throws Exception {
        long rows = Long.parseLong(args[1]);
        int runs = Integer.parseInt(args[2]);
        Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(new Path("file://" + args[0])));
        catalog.createDatabase("db", true);
        IOManager io = IOManager.create(System.getProperty("java.io.tmpdir"));
        for (String name : args[3].split(",")) {
            String kind = name.replaceAll("[0-9_].*", "");
            boolean keyed = !kind.equals("app");
            String[] numbers = name.substring(kind.length()).split("_");
            int buckets = keyed ? Integer.parseInt(numbers[0]) : -1;
            int commits = numbers.length > 1 ? Integer.parseInt(numbers[1]) : runs;
            Identifier id = Identifier.create("db", name);
            boolean based = kind.equals("top") || kind.equals("flat") || kind.equals("large");
            if (based && catalog.listTables("db").contains(name)) {
                updates(catalog.getTable(id), io, rows, commits, !kind.equals("flat"));
                continue;
            }
            catalog.dropTable(id, true);
            catalog.createTable(id, schema(kind, buckets), false);
            Table table = catalog.getTable(id);
            if (based) {
                ordered(table, io, rows, 1, false);
            } else if (kind.equals("seq") || kind.equals("late")) {
                ordered(table, io, rows / commits, commits, kind.equals("late"));
            } else if (keyed) {
                keyed(table, io, rows / commits * 4, commits);
            } else {
                append(table, io, rows, numbers.length > 1 ? commits : APPEND_FILES);
            }
        }
        System.exit(0);
    }

    static void keyed(Table table, IOManager io, long space, int runs) throws Exception {
        for (int run = 0; run < runs; run++) {
            BatchWriteBuilder builder = table.newBatchWriteBuilder();
            try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
                write.withIOManager(io);
                long step = 0x9E3779B1L + 2 * run * 7919; // walks through all keys when it has no factor in common with space
                while (gcd(step, space) != 1) {
                    step += 2;
                }
                for (long i = 0; i < space; i++) {
                    long key = Math.floorMod(i * step + run * 12345L, space);
                    if ((mix(key * 1_000_003L + run * 77L + 5) & 3) == 0) {
                        write.write(row(key, run));
                    }
                }
                commit.commit(write.prepareCommit());
            }
        }
    }

    static void ordered(Table table, IOManager io, long each, int runs, boolean late) throws Exception {
        for (int run = 0; run < (late ? runs + 1 : runs); run++) {
            long first = Math.min(run, runs - 1) * each;
            BatchWriteBuilder builder = table.newBatchWriteBuilder();
            try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
                write.withIOManager(io);
                for (long i = 0; i < each; i += run < runs ? 1 : 10) {
                    write.write(row(first + i, run));
                }
                commit.commit(write.prepareCommit());
            }
        }
    }

    static void updates(Table table, IOManager io, long rows, int commits, boolean late) throws Exception {
        long first = late ? rows - rows / 12 : 0;
        for (int run = 1; run <= commits; run++) {
            BatchWriteBuilder builder = table.newBatchWriteBuilder();
            try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
                write.withIOManager(io);
                for (long i = 0; i < rows / 100; i++) {
                    write.write(row(first + Math.floorMod(mix(i * 31 + run), rows - first), run));
                }
                commit.commit(write.prepareCommit());
            }
        }
    }

    static void append(Table table, IOManager io, long rows, int files) throws Exception {
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        List<CommitMessage> messages = new ArrayList<>();
        long each = rows / files;
        for (int file = 0; file < files; file++) {
            try (BatchTableWrite write = builder.newWrite()) {
                write.withIOManager(io);
                for (long i = 0; i < each; i++) {
                    write.write(row(file * each + i, 0));
                }
                messages.addAll(write.prepareCommit());
            }
        }
        try (BatchTableCommit commit = builder.newCommit()) {
            commit.commit(messages);
        }
    }

    static long gcd(long x, long y) {
        return y == 0 ? x : gcd(y, x % y);
    }
}
