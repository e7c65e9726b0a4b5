import org.apache.paimon.*;
import org.apache.paimon.append.dataevolution.*;
import org.apache.paimon.data.*;
import org.apache.paimon.deletionvectors.*;
import org.apache.paimon.deletionvectors.append.*;
import org.apache.paimon.index.*;
import org.apache.paimon.io.*;
import org.apache.paimon.manifest.*;
import org.apache.paimon.table.*;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.table.sink.*;
import org.apache.paimon.types.*;

import java.lang.reflect.Constructor;
import java.util.*;

/** Tables with data evolution: the calls to the core that Paimon's engines make for them. */
class Evolution {
    /** Hex; {"uri","offset","length"}: a reference; {"view","field","row"}: a view, and "older": the row keeps the value that it has (both 2.0.0 only). */
    static Object blob(org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode n) {
        if (n.has("view")) try {
            Class<?> view = Class.forName("org.apache.paimon.data.BlobViewStruct");
            Object value = view.getConstructor(Identifier.class, int.class, long.class).newInstance(Identifier.fromString(n.get("view").asText()), n.get("field").asInt(), n.get("row").asLong());
            return Blob.class.getMethod("fromView", view).invoke(null, value);
        } catch (ReflectiveOperationException e) { throw new UnsupportedOperationException(e); }
        if (n.isObject()) return Blob.fromFile(org.apache.paimon.fs.local.LocalFileIO.create(), n.get("uri").asText(), n.get("offset").asLong(), n.get("length").asLong());
        if (!n.asText().equals("older")) return Blob.fromData(Oracle.unhex(n.asText()));
        try { return Class.forName("org.apache.paimon.data.BlobPlaceholder").getField("INSTANCE").get(null); } catch (ReflectiveOperationException e) { throw new UnsupportedOperationException(e); }
    }

    /** One commit of the columns --columns a,b of the rows from row id --first-row-id on (absent: new rows). */
    static Object writeColumns(FileStoreTable t, Oracle.Args a) throws Exception {
        RowType type = t.rowType().project(Arrays.asList(a.get("columns").split(",")));
        Oracle.W w = new Oracle.W();
        long id = Oracle.nextId(t, w), before = Optional.ofNullable(t.snapshotManager().latestSnapshotId()).orElse(0L);
        TableWriteImpl<?> write = t.newWrite(w.user).withWriteType(type);
        write.withIOManager(Oracle.io());
        for (org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode n : Oracle.jsonl(a.pos.get(2))) write.write(Oracle.row(type, n, true));
        List<CommitMessage> messages = write.prepareCommit(true, id);
        write.close();
        if (a.has("first-row-id")) for (CommitMessage m : messages) {
            long first = Long.parseLong(a.get("first-row-id"));
            Map<String, Long> next = new HashMap<>();
            List<DataFileMeta> files = ((CommitMessageImpl) m).newFilesIncrement().newFiles(), placed = new ArrayList<>();
            for (DataFileMeta f : files) {
                long from = next.getOrDefault(String.valueOf(f.writeCols()), first);
                placed.add(f.assignFirstRowId(from));
                next.put(String.valueOf(f.writeCols()), from + f.rowCount());
            }
            files.clear();
            files.addAll(placed);
        }
        Oracle.commit(t, messages, w, id);
        return Oracle.newSnaps(t, before);
    }

    /** Deletes rows by their ids: the vector of a range of rows belongs to its oldest file of ordinary columns (2.0.0 only). */
    static Object deleteRowIds(FileStoreTable t, Oracle.Args a) throws Exception {
        TreeSet<Long> ids = new TreeSet<>();
        for (String s : a.pos.get(2).split(",")) ids.add(Long.parseLong(s));
        Snapshot s = t.snapshotManager().latestSnapshot();
        Oracle.W w = new Oracle.W();
        long id = Oracle.nextId(t, w);
        Map<BinaryRow, Map<Long, DataFileMeta>> anchors = new LinkedHashMap<>();
        for (ManifestEntry e : t.store().newScan().withSnapshot(s).plan().files()) {
            DataFileMeta f = e.file();
            if (f.fileName().endsWith(".blob") || f.fileName().contains(".vector.")) continue;
            Comparator<DataFileMeta> order = Comparator.comparingLong(DataFileMeta::maxSequenceNumber).thenComparing(DataFileMeta::fileName);
            anchors.computeIfAbsent(e.partition().copy(), k -> new TreeMap<>()).merge(f.nonNullFirstRowId(), f, (x, y) -> order.compare(x, y) < 0 ? x : y);
        }
        List<CommitMessage> messages = new ArrayList<>();
        for (Map.Entry<BinaryRow, Map<Long, DataFileMeta>> p : anchors.entrySet()) {
            AppendDeleteFileMaintainer m = BaseAppendDeleteFileMaintainer.forUnawareAppend(t.store().newIndexFileHandler(), s, p.getKey());
            boolean any = false;
            for (DataFileMeta f : p.getValue().values()) {
                NavigableSet<Long> here = ids.subSet(f.nonNullFirstRowId(), true, f.nonNullFirstRowId() + f.rowCount(), false);
                if (here.isEmpty()) continue;
                DeletionVector v = t.coreOptions().deletionVectorBitmap64() ? new Bitmap64DeletionVector() : new BitmapDeletionVector();
                for (long r : here) v.delete(r - f.nonNullFirstRowId());
                m.notifyNewDeletionVector(f.fileName(), v);
                any = true;
            }
            if (!any) continue;
            List<IndexFileMeta> add = new ArrayList<>(), del = new ArrayList<>();
            for (IndexManifestEntry e : m.persist()) (e.kind() == FileKind.ADD ? add : del).add(e.indexFile());
            messages.add(new CommitMessageImpl(p.getKey(), 0, null, new DataIncrement(List.of(), List.of(), List.of(), add, del), CompactIncrement.emptyIncrement()));
        }
        Oracle.commit(t, messages, w, id);
        return Oracle.newSnaps(t, s.id());
    }

    /** What Paimon's `compact` does; since 2.0 blob files too where blob-compaction.enabled says so. */
    static List<CommitMessage> compact(FileStoreTable t, String user) throws Exception {
        boolean blobs = Boolean.parseBoolean(t.options().getOrDefault("blob-compaction.enabled", "false"));
        Snapshot s = t.snapshotManager().latestSnapshot();
        DataEvolutionCompactCoordinator c;
        Constructor<?> first = constructor(DataEvolutionCompactCoordinator.class, FileStoreTable.class, boolean.class, boolean.class);
        if (first != null) c = (DataEvolutionCompactCoordinator) first.newInstance(t, false, false);
        else c = (DataEvolutionCompactCoordinator) constructor(DataEvolutionCompactCoordinator.class, FileStoreTable.class, boolean.class, boolean.class, Snapshot.class).newInstance(t, blobs, false, s);
        List<CommitMessage> messages = new ArrayList<>();
        for (DataEvolutionCompactTask task : c.plan()) messages.add(task.doCompact(t, user));
        if (first == null && !messages.isEmpty()) {
            Class<?> vectors = Class.forName("org.apache.paimon.append.dataevolution.DataEvolutionCompactDeletionVectorRewriter");
            Object rewriter = vectors.getConstructor(FileStoreTable.class, Snapshot.class).newInstance(t, s);
            @SuppressWarnings("unchecked")
            List<CommitMessage> moved = (List<CommitMessage>) vectors.getMethod("rewriteDeletionVectors", List.class).invoke(rewriter, messages);
            messages.addAll(moved);
        }
        return messages;
    }

    private static Constructor<?> constructor(Class<?> of, Class<?>... types) {
        try { return of.getConstructor(types); } catch (NoSuchMethodException e) { return null; }
    }
}
