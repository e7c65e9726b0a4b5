import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.fs.Path;
import org.apache.paimon.operation.LocalOrphanFilesClean;
import org.apache.paimon.options.ExpireConfig;
import org.apache.paimon.table.FileStoreTable;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;

/**
 * The Java peer for maintenance: `expire TABLE` leaves the latest snapshot alone, `orphans TABLE` looks for orphans older than now and
 * removes none. Argument: WAREHOUSE. One JSON line each: seconds, and how many snapshots went or files were found.
 */
public class MaintainPeer {
    public static void main(String[] args) throws Exception {
        Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(new Path("file://" + args[0])));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            long start = System.nanoTime();
            FileStoreTable table = (FileStoreTable) catalog.getTable(Identifier.create("db", words[1]));
            long count = words[0].equals("expire") ? expire(table) : orphans(table);
            System.out.printf("{\"seconds\":%.4f,\"count\":%d}%n", (System.nanoTime() - start) / 1e9, count);
            System.out.flush();
        }
        System.exit(0);
    }

    static long expire(FileStoreTable table) {
        ExpireConfig all = ExpireConfig.builder().snapshotRetainMax(1).snapshotRetainMin(1).snapshotTimeRetain(Duration.ZERO)
                .snapshotMaxDeletes(Integer.MAX_VALUE).build();
        return table.newExpireSnapshots().config(all).expire();
    }

    static long orphans(FileStoreTable table) throws Exception {
        return new LocalOrphanFilesClean(table, System.currentTimeMillis() - 1, true).clean().getDeletedFileCount();
    }
}
