import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.flink.lookup.FullCacheLookupTable;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;

/** Java Paimon's full cache: loads TABLE_PATH by its key `k`, into DIRECTORY; a line of JSON. */
public class FullCachePeer {
    public static void main(String[] a) throws Exception {
        FileStoreTable t = FileStoreTableFactory.create(LocalFileIO.create(), new org.apache.paimon.fs.Path(a[0]))
                .copy(Map.of("lookup.cache", "full"));
        int[] all = new int[t.rowType().getFieldCount()];
        for (int i = 0; i < all.length; i++) all[i] = i;
        long begin = System.nanoTime();
        FullCacheLookupTable cache = FullCacheLookupTable.create(
                new FullCacheLookupTable.Context(t, all, null, null, new File(a[1]), List.of("k"), null), 10_000);
        cache.open();
        double seconds = (System.nanoTime() - begin) / 1e9;
        int found = 0;
        for (long k = 0; k < 1000; k++) found += cache.get(GenericRow.of(k)).size();
        cache.close();
        String peak = Files.readAllLines(Path.of("/proc/self/status")).stream().filter(l -> l.startsWith("VmHWM")).findFirst().get();
        System.out.println("{\"seconds\": " + seconds + ", \"peak_memory_mb\": " + Long.parseLong(peak.replaceAll("\\D", "")) / 1024 + ", \"found\": " + found + "}");
        System.exit(0);
    }
}
