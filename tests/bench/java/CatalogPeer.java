import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.options.Options;

import java.io.BufferedReader;
import java.io.InputStreamReader;

/**
 * Lists and opens tables of a catalog, whose options are the arguments KEY=VALUE. A line of standard input is `list`, or `open` and
 * the names of tables of the database `d`, whose newest snapshots are read; a line of JSON is the answer.
 */
public class CatalogPeer {
    public static void main(String[] args) throws Exception {
        Options options = new Options();
        for (String one : args) {
            int at = one.indexOf('=');
            options.set(one.substring(0, at), one.substring(at + 1));
        }
        Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(options));
        BufferedReader tasks = new BufferedReader(new InputStreamReader(System.in));
        for (String task = tasks.readLine(); task != null; task = tasks.readLine()) {
            String[] words = task.split(" ");
            long start = System.nanoTime(), found = 0;
            if (words[0].equals("list")) {
                found = catalog.listTables("d").size();
            } else {
                for (int i = 1; i < words.length; i++) {
                    found += catalog.getTable(Identifier.create("d", words[i])).latestSnapshot().get().id();
                }
            }
            System.out.printf("{\"seconds\":%.6f,\"found\":%d}%n", (System.nanoTime() - start) / 1e9, found);
            System.out.flush();
        }
        System.exit(0);
    }
}
