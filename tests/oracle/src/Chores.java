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
            default: throw new IllegalArgumentException("unknown command " + cmd);
        }
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
