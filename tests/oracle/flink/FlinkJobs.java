import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.ResultKind;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

/** A local Flink with Paimon's connector, beside the oracle, whose loop it uses; its commands are
 *
 *  ["warehouse", PATH]: the warehouse of all statements
 *  ["sql", STATEMENT]: in batch mode; the rows as lists of texts, with their kind first
 *  ["start", STATEMENT, ("key=value")...]: a streaming job with these settings of Flink; its number
 *  ["state", N]: RUNNING, FINISHED, or FAILED and the causes
 *  any other: a command of the oracle
 */
public class FlinkJobs {
    static final List<CompletableFuture<?>> ENDS = new ArrayList<>();
    static final List<String> CATALOGS = new ArrayList<>();
    static TableEnvironment batch;

    static TableEnvironment environment(boolean streaming, List<String> settings) {
        Configuration conf = new Configuration();
        conf.setString("parallelism.default", "2");
        conf.setString("execution.checkpointing.interval", "500 ms");
        conf.setString("taskmanager.numberOfTaskSlots", "8");
        conf.setString("taskmanager.memory.network.min", "64mb");
        conf.setString("taskmanager.memory.network.max", "64mb");
        conf.setString("taskmanager.memory.managed.size", "128mb");
        conf.setString("restart-strategy.type", "fixed-delay");
        conf.setString("restart-strategy.fixed-delay.attempts", "5");
        conf.setString("restart-strategy.fixed-delay.delay", "500 ms");
        for (String setting : settings) conf.setString(setting.split("=", 2)[0], setting.split("=", 2)[1]);
        EnvironmentSettings.Builder builder = EnvironmentSettings.newInstance().withConfiguration(conf);
        TableEnvironment made = TableEnvironment.create((streaming ? builder.inStreamingMode() : builder.inBatchMode()).build());
        for (String statement : CATALOGS) made.executeSql(statement);
        return made;
    }

    static Object warehouse(List<String> arguments) {
        CATALOGS.add("CREATE CATALOG lake WITH ('type' = 'paimon', 'warehouse' = 'file:" + arguments.get(0) + "')");
        CATALOGS.add("USE CATALOG lake");
        batch = environment(false, List.of());
        return null;
    }

    static Object start(List<String> arguments) {
        TableEnvironment made = environment(true, arguments.subList(1, arguments.size()));
        String[] statements = arguments.get(0).split(";\n");
        for (int i = 0; i + 1 < statements.length; i++) made.executeSql(statements[i]);
        ENDS.add(made.executeSql(statements[statements.length - 1]).getJobClient().get().getJobExecutionResult());
        return ENDS.size() - 1;
    }

    static Object state(List<String> arguments) {
        CompletableFuture<?> end = ENDS.get(Integer.parseInt(arguments.get(0)));
        if (!end.isDone()) return "RUNNING";
        try {
            end.get();
            return "FINISHED";
        } catch (Exception err) {
            err.printStackTrace();
            StringBuilder causes = new StringBuilder("FAILED");
            for (Throwable cause = err; cause != null; cause = cause.getCause()) causes.append(": ").append(cause);
            return causes.toString();
        }
    }

    static Object rows(TableResult result) throws Exception {
        if (result.getResultKind() != ResultKind.SUCCESS_WITH_CONTENT) return null;
        List<List<String>> rows = new ArrayList<>();
        try (CloseableIterator<Row> all = result.collect()) {
            while (all.hasNext()) {
                Row row = all.next();
                List<String> texts = new ArrayList<>(List.of(row.getKind().shortString()));
                for (int i = 0; i < row.getArity(); i++) texts.add(String.valueOf(row.getField(i)));
                rows.add(texts);
            }
        }
        return rows;
    }

    public static void main(String[] args) throws Exception {
        Oracle.MORE.put("warehouse", FlinkJobs::warehouse);
        Oracle.MORE.put("sql", arguments -> rows(batch.executeSql(arguments.get(0))));
        Oracle.MORE.put("start", FlinkJobs::start);
        Oracle.MORE.put("state", FlinkJobs::state);
        Oracle.main(args);
    }
}
