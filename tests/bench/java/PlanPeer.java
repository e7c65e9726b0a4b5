import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.fs.Path;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Collections;
import java.util.List;

/** Plans scans of tables: a line of standard input is TABLE, or TABLE DAY for one partition; a line of JSON is the answer. */
public class PlanPeer {
    public static void main(String[] args) throws Exception {
        Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(new Path("file://" + args[0])));
        BufferedReader tasks = new BufferedReader(new InputStreamReader(System.in));
        for (String task = tasks.readLine(); task != null; task = tasks.readLine()) {
            String[] words = task.split(" ");
            Table table = catalog.getTable(Identifier.create("db", words[0]));
            ReadBuilder reading = table.newReadBuilder();
            if (words.length > 1) {
                reading = reading.withPartitionFilter(Collections.singletonMap("day", words[1]));
            }
            List<Split> splits = reading.newScan().plan().splits();
            int files = 0;
            for (Split split : splits) {
                files += ((DataSplit) split).dataFiles().size();
            }
            System.out.println("{\"files\": " + files + ", \"splits\": " + splits.size() + "}");
        }
        System.exit(0);
    }
}
