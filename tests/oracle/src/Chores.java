import org.apache.paimon.*;
import org.apache.paimon.data.*;
import org.apache.paimon.io.*;
import org.apache.paimon.manifest.*;
import org.apache.paimon.operation.*;
import org.apache.paimon.partition.actions.*;
import org.apache.paimon.table.*;
import org.apache.paimon.table.sink.*;
import org.apache.paimon.table.source.ScanMode;
import org.apache.paimon.utils.*;

import java.time.*;
import java.util.*;
import java.util.regex.Pattern;

/** Commands for chores whose procedures live outside Paimon's core: the same calls to the core as these procedures make. */
class Chores {
    static Object exec(String cmd, Oracle.Args a) throws Exception {
        FileStoreTable t = Oracle.fst(Oracle.strip(a));
        String first = a.pos.size() > 2 ? a.pos.get(2) : null;
        switch (cmd) {
            case "rollback-to-timestamp": t.rollbackTo(t.snapshotManager().earlierOrEqualTimeMills(Long.parseLong(first)).id()); return Oracle.ok();
            case "rollback-to-watermark": t.rollbackTo(t.snapshotManager().earlierOrEqualWatermark(Long.parseLong(first)).id()); return Oracle.ok();
            case "rename-branch": t.renameBranch(first, a.pos.get(3)); return Oracle.ok();
            case "clear-consumers":
                t.consumerManager().clearConsumers(Pattern.compile(a.get("including", ".*")), a.has("excluding") ? Pattern.compile(a.get("excluding")) : null);
                return Oracle.ok();
            case "expire-consumers":
                t.consumerManager().expire(LocalDateTime.ofInstant(java.time.Instant.ofEpochMilli(Long.parseLong(first)), ZoneId.systemDefault()));
                return Oracle.ok();
            // in 2.0.0 only
            case "merge-branch": call(t, "mergeBranch", new Class<?>[] {String.class, String.class}, first, a.pos.size() > 3 ? a.pos.get(3) : "main"); return Oracle.ok();
            case "repair-earliest-snapshot": return Oracle.ok("previous", call(t.snapshotManager(), "repairEarliestSnapshot", new Class<?>[] {long.class}, Long.parseLong(first)));
            case "remove-unexisting-files": return Oracle.ok("removed", unexistingFiles(t));
            case "remove-unexisting-manifests": return Oracle.ok("removed", unexistingManifests(t));
            case "mark-partition-done":
                for (PartitionMarkDoneAction one : PartitionMarkDoneAction.createActions(Chores.class.getClassLoader(), t, new CoreOptions(t.options()))) one.markDone(first);
                return Oracle.ok();
            case "splits": return splits(t);
            case "forces-snapshot": try (TableCommitImpl commit = t.newCommit("x")) { return commit.forceCreatingSnapshot(); }
            case "cluster-picks": return clusterPicks(manager(t, a).createCompactUnits(a.has("full")));
            case "cluster": return cluster(t, manager(t, a), a.has("full"));
            case "write-columns": return Evolution.writeColumns(t, a);
            case "delete-row-ids": return Evolution.deleteRowIds(t, a);
            default: throw new IllegalArgumentException("unknown command " + cmd);
        }
    }

    /** Of a table with clustering.incremental: `--where p=v,q=w` names the partition that is asked for. */
    private static org.apache.paimon.append.cluster.IncrementalClusterManager manager(FileStoreTable t, Oracle.Args a) {
        if (!a.has("where")) return new org.apache.paimon.append.cluster.IncrementalClusterManager(t);
        Map<String, String> spec = new LinkedHashMap<>();
        for (String one : a.get("where").split(",")) spec.put(one.split("=")[0], one.split("=")[1]);
        return new org.apache.paimon.append.cluster.IncrementalClusterManager(t, org.apache.paimon.partition.PartitionPredicate.fromMap(t.schema().logicalPartitionType(), spec, t.coreOptions().partitionDefaultName()));
    }

    /** What a clustering would put in order: serialised partition (hex) to level and file names. */
    private static Map<String, Object> clusterPicks(Map<BinaryRow, org.apache.paimon.compact.CompactUnit> units) {
        Map<String, Object> out = new TreeMap<>();
        units.forEach((partition, unit) -> {
            StringBuilder hex = new StringBuilder();
            for (byte b : SerializationUtils.serializeBinaryRow(partition)) hex.append(String.format("%02x", b));
            List<Object> names = new ArrayList<>();
            for (DataFileMeta file : unit.files()) names.add(file.fileName());
            Collections.sort((List) names);
            out.put(hex.toString(), List.of(unit.outputLevel(), names));
        });
        return out;
    }

    /** A clustering as the Spark procedure commits it. Rows come in the order of the text of the first clustering column. */
    private static Object cluster(FileStoreTable t, org.apache.paimon.append.cluster.IncrementalClusterManager manager, boolean full) throws Exception {
        Map<BinaryRow, org.apache.paimon.compact.CompactUnit> units = manager.createCompactUnits(full);
        List<CommitMessage> messages = new ArrayList<>();
        for (Map.Entry<BinaryRow, Pair<List<org.apache.paimon.table.source.DataSplit>, CommitMessage>> one : manager.toSplitsAndRewriteDvFiles(units).entrySet()) {
            List<InternalRow> rows = new ArrayList<>();
            org.apache.paimon.data.serializer.InternalRowSerializer serializer = new org.apache.paimon.data.serializer.InternalRowSerializer(t.rowType());
            for (org.apache.paimon.table.source.DataSplit split : one.getValue().getKey())
                try (org.apache.paimon.reader.RecordReader<InternalRow> reader = t.newReadBuilder().newRead().createReader(split)) { reader.forEachRemaining(row -> rows.add(serializer.copy(row))); }
            rows.sort(Comparator.comparing(row -> String.valueOf(Oracle.rowMap(t.rowType(), row, null).get(manager.clusterKeys().get(0)))));
            List<DataFileMeta> after = new ArrayList<>();
            try (BatchTableWrite write = t.copy(Map.of("write-only", "true")).newBatchWriteBuilder().newWrite()) {
                for (InternalRow row : rows) write.write(row);
                for (CommitMessage message : write.prepareCommit()) after.addAll(((CommitMessageImpl) message).newFilesIncrement().newFiles());
            }
            org.apache.paimon.compact.CompactUnit unit = units.get(one.getKey());
            CommitMessageImpl vectors = (CommitMessageImpl) one.getValue().getValue();
            CompactIncrement increment = new CompactIncrement(unit.files(), org.apache.paimon.append.cluster.IncrementalClusterManager.upgrade(after, unit.outputLevel()), List.of(),
                    vectors == null ? List.of() : vectors.compactIncrement().newIndexFiles(), vectors == null ? List.of() : vectors.compactIncrement().deletedIndexFiles());
            messages.add(new CommitMessageImpl(one.getKey(), 0, t.coreOptions().bucket(), DataIncrement.emptyIncrement(), increment));
        }
        Oracle.W w = new Oracle.W();
        long before = t.snapshotManager().latestSnapshotId();
        if (!messages.isEmpty()) Oracle.commit(t, messages, w, Oracle.nextId(t, w));
        return Oracle.newSnaps(t, before);
    }

    /** The splits of a batch read, as Paimon plans them: serialised partition (hex), bucket, file names, rawConvertible, deletion vectors by file. */
    private static List<Object> splits(FileStoreTable t) {
        List<Object> out = new ArrayList<>();
        for (org.apache.paimon.table.source.Split split : t.newReadBuilder().newScan().plan().splits()) {
            org.apache.paimon.table.source.DataSplit s = (org.apache.paimon.table.source.DataSplit) split;
            Map<String, Object> one = new LinkedHashMap<>();
            StringBuilder partition = new StringBuilder();
            for (byte b : SerializationUtils.serializeBinaryRow(s.partition())) partition.append(String.format("%02x", b));
            one.put("partition", partition.toString());
            one.put("bucket", s.bucket());
            List<Object> files = new ArrayList<>(), deletions = new ArrayList<>();
            for (int i = 0; i < s.dataFiles().size(); i++) {
                files.add(s.dataFiles().get(i).fileName());
                boolean marked = s.deletionFiles().isPresent() && s.deletionFiles().get().get(i) != null;
                deletions.add(marked ? s.deletionFiles().get().get(i).offset() : null);
            }
            one.put("files", files);
            one.put("raw", s.rawConvertible());
            one.put("deletions", deletions);
            out.add(one);
        }
        return out;
    }

    private static Object call(Object on, String name, Class<?>[] types, Object... values) throws Exception {
        try {
            java.lang.reflect.Method m = on.getClass().getMethod(name, types);
            m.setAccessible(true);
            return m.invoke(on, values);
        } catch (java.lang.reflect.InvocationTargetException e) {
            throw new RuntimeException(e.getCause().getMessage(), e.getCause());
        }
    }

    private static List<String> unexistingFiles(FileStoreTable t) throws Exception {
        List<String> names = new ArrayList<>();
        List<CommitMessage> messages = new ArrayList<>();
        for (BinaryRow partition : t.newScan().listPartitions()) {
            for (Map.Entry<Integer, Map<String, DataFileMeta>> e : new ListUnexistingFiles(t).list(partition).entrySet()) {
                List<DataFileMeta> gone = new ArrayList<>(e.getValue().values());
                messages.add(new CommitMessageImpl(partition, e.getKey(), t.coreOptions().bucket(),
                        new DataIncrement(Collections.emptyList(), gone, Collections.emptyList()), CompactIncrement.emptyIncrement()));
                for (DataFileMeta f : gone) names.add(f.fileName());
            }
        }
        try (TableCommitImpl c = t.newCommit(UUID.randomUUID().toString())) { c.commit(Long.MAX_VALUE, messages); }
        Collections.sort(names);
        return names;
    }

    private static List<String> unexistingManifests(FileStoreTable t) throws Exception {
        Snapshot latest = t.snapshotManager().latestSnapshot();
        List<String> names = new ArrayList<>();
        List<ManifestFileMeta> kept = new ArrayList<>();
        long rows = 0;
        for (ManifestFileMeta m : t.store().newScan().manifestsReader().read(latest, ScanMode.ALL).allManifests) {
            if (!t.fileIO().exists(t.store().pathFactory().toManifestFilePath(m.fileName()))) { names.add(m.fileName()); continue; }
            for (ManifestEntry e : t.store().newScan().readManifest(m)) rows += e.file().rowCount();
            kept.add(m);
        }
        if (names.isEmpty()) return names;
        ManifestList lists = t.store().manifestListFactory().create();
        Pair<String, Long> base = lists.write(kept), delta = lists.write(Collections.emptyList());
        try (FileStoreCommitImpl c = (FileStoreCommitImpl) t.store().newCommit("Repair-table-" + UUID.randomUUID(), t)) {
            if (!c.replaceManifestList(latest, rows, base, delta)) throw new IllegalStateException("conflict");
        }
        return names;
    }
}
