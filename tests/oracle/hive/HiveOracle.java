import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.conf.MetastoreConf;
import org.apache.hadoop.hive.metastore.security.HadoopThriftAuthBridge;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;

/** The oracle, and a Hive metastore with Derby in memory beside it. Arguments: its port, its warehouse, and those of the oracle. */
public class HiveOracle {
    public static void main(String[] args) throws Exception {
        System.setOut(System.err); // the oracle answers on the real one
        int port = Integer.parseInt(args[0]);
        Configuration conf = MetastoreConf.newMetastoreConf();
        conf.set("javax.jdo.option.ConnectionURL", "jdbc:derby:memory:metastore;create=true");
        conf.set("datanucleus.schema.autoCreateAll", "true");
        conf.set("datanucleus.connectionPoolingType", "dbcp");
        conf.set("hive.metastore.schema.verification", "false");
        conf.set("hive.metastore.warehouse.dir", args[1]);
        conf.set("hive.metastore.event.db.notification.api.auth", "false");
        conf.set("hive.txn.timeout", "60s");
        conf.set("hive.txn.manager", "org.apache.hadoop.hive.ql.lockmgr.DbTxnManager");
        conf.set("metastore.server.min.threads", "4");
        TxnDbUtil.prepDb(conf);
        Thread server = new Thread(() -> {
            try {
                HiveMetaStore.startMetaStore(port, HadoopThriftAuthBridge.getBridge(), conf);
            } catch (Throwable err) {
                err.printStackTrace();
                System.exit(1);
            }
        });
        server.setDaemon(true);
        server.start();
        while (true) {
            try {
                new java.net.Socket("127.0.0.1", port).close();
                break;
            } catch (java.io.IOException notYet) {
                Thread.sleep(50);
            }
        }
        Oracle.main(java.util.Arrays.copyOfRange(args, 2, args.length));
        System.exit(0);
    }
}
