import org.apache.paimon.AppendOnlyFileStore;
import org.apache.paimon.append.AppendCompactCoordinator;
import org.apache.paimon.append.AppendCompactTask;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.Path;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.operation.BaseAppendFileStoreWrite;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.CommitMessageImpl;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.utils.CloseableIterator;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The Java peer: compacts the tables named on stdin, one thread per bucket or task, or reads them (`read TABLE`), one thread per
 * split, or copies their rows (`copy TABLE TARGET`). Arguments: WAREHOUSE THREADS. One JSON line each.
 */
public class Peer {
    interface Work {
        void run() throws Exception;
    }

    public static void main(String[] args) throws Exception {
        Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(new Path("file://" + args[0])));
        IOManager io = IOManager.create(System.getProperty("java.io.tmpdir"));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String name = in.readLine(); name != null; name = in.readLine()) {
            long start = System.nanoTime();
            if (name.startsWith("read ")) {
                read(catalog.getTable(Identifier.create("db", name.substring(5))), Integer.parseInt(args[1]), start);
                continue;
            }
            if (name.startsWith("copy ")) {
                String[] names = name.split(" ");
                Table source = catalog.getTable(Identifier.create("db", names[1]));
                copy(source, catalog.getTable(Identifier.create("db", names[2])), io, Integer.parseInt(args[1]), start);
                continue;
            }
            FileStoreTable stored = (FileStoreTable) catalog.getTable(Identifier.create("db", name));
            FileStoreTable table = stored.copy(Map.of("write-only", "false"));
            List<CommitMessage> messages = Collections.synchronizedList(new ArrayList<>());
            List<Work> work = table.primaryKeys().isEmpty() ? append(table, io, messages) : keyed(table, io, messages);
            ExecutorService pool = Executors.newFixedThreadPool(Integer.parseInt(args[1]));
            List<Future<?>> running = new ArrayList<>();
            for (Work unit : work) {
                running.add(pool.submit(() -> { unit.run(); return null; }));
            }
            for (Future<?> one : running) {
                one.get();
            }
            pool.shutdown();
            try (BatchTableCommit commit = table.newBatchWriteBuilder().newCommit()) {
                commit.commit(messages);
            }
            report(name, (System.nanoTime() - start) / 1e9, messages);
        }
        System.exit(0);
    }

    /** All rows of the latest snapshot, merged; they are counted, their columns are decoded and left alone. */
    static void read(Table table, int threads, long start) throws Exception {
        ReadBuilder builder = table.newReadBuilder();
        AtomicLong rows = new AtomicLong();
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        List<Future<?>> running = new ArrayList<>();
        for (Split split : builder.newScan().plan().splits()) {
            running.add(pool.submit(() -> {
                long[] count = {0};
                try (RecordReader<InternalRow> reader = builder.newRead().createReader(split)) {
                    reader.forEachRemaining(row -> count[0]++);
                }
                rows.addAndGet(count[0]);
                return null;
            }));
        }
        for (Future<?> one : running) {
            one.get();
        }
        pool.shutdown();
        System.out.printf("{\"seconds\":%.3f,\"rows_in\":%d,\"rows_out\":%d}%n", (System.nanoTime() - start) / 1e9, rows.get(), rows.get());
        System.out.flush();
    }

    /** All rows of a table are written to another in one commit; each thread has a writer, and takes split after split: those of a
     * table with a key are whole buckets, and both tables have the same. */
    static void copy(Table source, Table target, IOManager io, int threads, long start) throws Exception {
        ReadBuilder read = source.newReadBuilder();
        BatchWriteBuilder builder = target.newBatchWriteBuilder();
        Queue<Split> splits = new ConcurrentLinkedQueue<>(read.newScan().plan().splits());
        List<CommitMessage> messages = Collections.synchronizedList(new ArrayList<>());
        AtomicLong rows = new AtomicLong();
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        List<Future<?>> running = new ArrayList<>();
        for (int thread = 0; thread < threads; thread++) {
            running.add(pool.submit(() -> {
                try (BatchTableWrite write = builder.newWrite()) {
                    write.withIOManager(io);
                    for (Split split = splits.poll(); split != null; split = splits.poll()) {
                        try (RecordReader<InternalRow> reader = read.newRead().createReader(split);
                                CloseableIterator<InternalRow> all = reader.toCloseableIterator()) {
                            while (all.hasNext()) {
                                write.write(all.next());
                                rows.incrementAndGet();
                            }
                        }
                    }
                    messages.addAll(write.prepareCommit());
                }
                return null;
            }));
        }
        for (Future<?> one : running) {
            one.get();
        }
        pool.shutdown();
        try (BatchTableCommit commit = builder.newCommit()) {
            commit.commit(messages);
        }
        System.out.printf("{\"seconds\":%.3f,\"rows_out\":%d}%n", (System.nanoTime() - start) / 1e9, rows.get());
        System.out.flush();
    }

    /** A full compaction of every bucket. */
    static List<Work> keyed(FileStoreTable table, IOManager io, List<CommitMessage> messages) {
        TreeSet<Integer> buckets = new TreeSet<>();
        for (Split split : table.newReadBuilder().newScan().plan().splits()) {
            buckets.add(((DataSplit) split).bucket());
        }
        List<Work> work = new ArrayList<>();
        for (int bucket : buckets) {
            work.add(() -> {
                BatchWriteBuilder builder = table.newBatchWriteBuilder();
                try (BatchTableWrite write = builder.newWrite()) {
                    write.withIOManager(io);
                    write.compact(BinaryRow.EMPTY_ROW, bucket, true);
                    messages.addAll(write.prepareCommit());
                }
            });
        }
        return work;
    }

    /** The small-file tasks that Paimon's coordinator makes. */
    static List<Work> append(FileStoreTable table, IOManager io, List<CommitMessage> messages) {
        List<Work> work = new ArrayList<>();
        for (AppendCompactTask task : new AppendCompactCoordinator(table, false).run()) {
            work.add(() -> {
                BaseAppendFileStoreWrite write =
                        (BaseAppendFileStoreWrite) (Object) ((AppendOnlyFileStore) (Object) table.store()).newWrite("bench");
                write.withIOManager(io);
                messages.add(task.doCompact(table, write));
                write.close();
            });
        }
        return work;
    }

    static void report(String name, double seconds, List<CommitMessage> messages) {
        long rowsIn = 0, rowsOut = 0, filesIn = 0, filesOut = 0;
        for (CommitMessage message : messages) {
            CommitMessageImpl one = (CommitMessageImpl) message;
            for (DataFileMeta file : one.compactIncrement().compactBefore()) {
                rowsIn += file.rowCount();
                filesIn++;
            }
            for (DataFileMeta file : one.compactIncrement().compactAfter()) {
                rowsOut += file.rowCount();
                filesOut++;
            }
        }
        System.out.printf(
                "{\"table\":\"%s\",\"seconds\":%.3f,\"rows_in\":%d,\"rows_out\":%d,\"files_in\":%d,\"files_out\":%d}%n",
                name, seconds, rowsIn, rowsOut, filesIn, filesOut);
        System.out.flush();
    }
}
