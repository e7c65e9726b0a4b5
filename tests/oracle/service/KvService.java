import java.io.*;
import java.net.InetSocketAddress;
import java.util.*;
import java.util.concurrent.TimeUnit;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.manifest.ManifestEntry;
import org.apache.paimon.query.QueryLocationImpl;
import org.apache.paimon.service.ServiceManager;
import org.apache.paimon.service.client.KvQueryClient;
import org.apache.paimon.service.network.stats.DisabledServiceRequestStats;
import org.apache.paimon.service.server.KvQueryServer;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.query.LocalTableQuery;
import org.apache.paimon.utils.SerializationUtils;

/**
 * Java's query service and its client, spoken to line by line until the end of input: `serve TABLE_PATH N` answers "ready", `stop`
 * ends these servers and answers "stopped", and `ask TABLE_PATH N [keep]` takes N lines "partition bucket key,key" in hex and answers each.
 */
public class KvService {
    static final List<KvQueryServer> servers = new ArrayList<>();
    static final Map<String, KvQueryClient> kept = new HashMap<>();

    public static void main(String[] a) throws Throwable {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String[] p = line.split(" ");
            if (p[0].equals("stop")) {
                for (KvQueryServer s : servers) s.shutdown();
                servers.clear();
                System.out.println("stopped");
                continue;
            }
            String path = new String(HexFormat.of().parseHex(p[1]), "UTF-8");
            FileStoreTable t = FileStoreTableFactory.create(LocalFileIO.create(), new Path(path));
            if (p[0].equals("serve")) serve(t, Integer.parseInt(p[2]));
            else ask(t, Integer.parseInt(p[2]), in, p.length > 3 ? path : null);
        }
        System.exit(0);
    }

    static void serve(FileStoreTable t, int n) throws Throwable {
        Map<List<Object>, List<DataFileMeta>> files = new LinkedHashMap<>();
        for (ManifestEntry e : t.store().newScan().plan().files())
            files.computeIfAbsent(Arrays.asList(e.partition().copy(), e.bucket()), k -> new ArrayList<>()).add(e.file());
        InetSocketAddress[] at = new InetSocketAddress[n];
        for (int i = 0; i < n; i++) {
            // A query of its own and one thread for each server, as in Flink's job: a query of 2.0.0 compares keys with one
            // comparator, which has state, and answers with rows of other keys when two threads use it.
            LocalTableQuery q = t.newLocalTableQuery().withIOManager(IOManager.create(System.getProperty("java.io.tmpdir")));
            files.forEach((k, v) -> q.refreshFiles((BinaryRow) k.get(0), (Integer) k.get(1), List.of(), v));
            KvQueryServer s = new KvQueryServer(i, n, "127.0.0.1", List.of(0).iterator(), 1, 1, q, new DisabledServiceRequestStats());
            s.start();
            servers.add(s);
            at[i] = s.getServerAddress();
        }
        t.store().newServiceManager().resetService(ServiceManager.PRIMARY_KEY_LOOKUP, at);
        System.out.println("ready");
    }

    /** A client has buffers of its own that it does not give back: whoever asks often keeps it, until a question fails. */
    static void ask(FileStoreTable t, int n, BufferedReader in, String keep) throws Throwable {
        KvQueryClient c = keep == null ? null : kept.get(keep);
        if (c == null) c = new KvQueryClient(new QueryLocationImpl(t.store().newServiceManager()), 1);
        if (keep != null) kept.put(keep, c);
        boolean failed = false;
        for (int at = 0; at < n; at++) {
            String[] p = in.readLine().split(" ");
            String[] k = p[2].split(",");
            BinaryRow[] keys = new BinaryRow[k.length];
            for (int i = 0; i < k.length; i++) keys[i] = row(k[i]);
            try {
                StringBuilder out = new StringBuilder();
                for (BinaryRow r : c.getValues(row(p[0]), Integer.parseInt(p[1]), keys).get(20, TimeUnit.SECONDS))
                    out.append(out.length() == 0 ? "" : ",").append(r == null ? "-" : HexFormat.of().formatHex(SerializationUtils.serializeBinaryRow(r)));
                System.out.println(out);
            } catch (Exception e) {
                failed = true;
                System.out.println("! " + String.valueOf(e).replace('\n', ' '));
            }
        }
        if (keep == null || failed) {
            kept.remove(keep);
            c.shutdown();
        }
    }

    static BinaryRow row(String hex) {
        return SerializationUtils.deserializeBinaryRow(HexFormat.of().parseHex(hex)).copy();
    }
}
