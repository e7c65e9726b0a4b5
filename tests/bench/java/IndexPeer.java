import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.fs.Path;
import org.apache.paimon.index.FileIndexProcessor;
import org.apache.paimon.io.CompactIncrement;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.io.DataIncrement;
import org.apache.paimon.manifest.ManifestEntry;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.CommitMessageImpl;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * The Java peer for file indexes: `rewrite TABLE` makes those of the options, a file a task; `find TABLE COLUMN VALUE` reads the rows
 * with a BIGINT value. Arguments: WAREHOUSE THREADS KEY=VALUE... One JSON line each.
 */
public class IndexPeer {
    public static void main(String[] args) throws Exception {
        Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(new Path("file://" + args[0])));
        Map<String, String> options = new HashMap<>();
        for (int i = 2; i < args.length; i++) {
            int at = args[i].indexOf('=');
            options.put(args[i].substring(0, at), args[i].substring(at + 1));
        }
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            long start = System.nanoTime();
            String[] words = line.split(" ");
            FileStoreTable table = (FileStoreTable) catalog.getTable(Identifier.create("db", words[1]));
            long rows = words[0].equals("find") ? find(table, words[2], Long.parseLong(words[3])) : rewrite(table.copy(options), Integer.parseInt(args[1]));
            System.out.printf("{\"seconds\":%.4f,\"rows\":%d}%n", (System.nanoTime() - start) / 1e9, rows);
            System.out.flush();
        }
        System.exit(0);
    }

    static long rewrite(FileStoreTable table, int threads) throws Exception {
        List<CommitMessage> messages = Collections.synchronizedList(new ArrayList<>());
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        List<Future<?>> running = new ArrayList<>();
        long rows = 0;
        for (ManifestEntry entry : table.store().newScan().plan().files()) {
            rows += entry.file().rowCount();
            running.add(pool.submit(() -> {
                DataFileMeta after = new FileIndexProcessor(table).process(entry.partition(), entry.bucket(), entry);
                messages.add(new CommitMessageImpl(entry.partition(), entry.bucket(), entry.totalBuckets(), DataIncrement.emptyIncrement(),
                        new CompactIncrement(List.of(entry.file()), List.of(after), List.of())));
                return null;
            }));
        }
        for (Future<?> one : running) {
            one.get();
        }
        pool.shutdown();
        try (BatchTableCommit commit = table.newBatchWriteBuilder().newCommit()) {
            commit.commit(messages);
        }
        return rows;
    }

    static long find(FileStoreTable table, String column, long value) throws Exception {
        Predicate wanted = new PredicateBuilder(table.rowType()).equal(table.rowType().getFieldIndex(column), value);
        ReadBuilder builder = table.newReadBuilder().withFilter(wanted);
        long[] count = {0};
        for (Split split : builder.newScan().plan().splits()) {
            try (RecordReader<InternalRow> reader = builder.newRead().executeFilter().createReader(split)) {
                reader.forEachRemaining(row -> count[0]++);
            }
        }
        return count[0];
    }
}
