import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.SafeModeAction;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.protocol.HdfsConstants;

/**
 * A name node and two data nodes of Hadoop on free ports of 127.0.0.1. Argument: a directory for their files.
 * stdout: the port of the name node, then `ok` for each command of stdin (`safemode enter|leave`, `names PATH N`, `space PATH BYTES`).
 */
public class HdfsCluster {
    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        HdfsConfiguration conf = new HdfsConfiguration();
        conf.set("hdfs.minidfs.basedir", args[0]);
        conf.set("dfs.namenode.fs-limits.min-block-size", "4096");
        conf.set("dfs.namenode.edits.noeditlogchannelflush", "true");
        // a file may be closed before a data node has reported its last block: else the library waits half a second
        conf.set("dfs.namenode.file.close.num-committed-allowed", "1");
        conf.set("dfs.blockreport.incremental.intervalMsec", "20"); // a reader finds such files often
        conf.set("dfs.replication", "2"); // of a block with one copy it is not allowed
        conf.set("dfs.datanode.handler.count", "4");
        conf.set("dfs.namenode.handler.count", "8");
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(conf).numDataNodes(2).build();
        cluster.waitActive();
        answers.println(cluster.getNameNodePort());
        DistributedFileSystem files = cluster.getFileSystem();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ");
            long keep = HdfsConstants.QUOTA_DONT_SET;
            switch (words[0]) {
                case "safemode":
                    files.setSafeMode(words[1].equals("enter") ? SafeModeAction.ENTER : SafeModeAction.LEAVE);
                    break;
                case "names":
                    files.setQuota(new Path(words[1]), Long.parseLong(words[2]), keep);
                    break;
                case "space":
                    files.setQuota(new Path(words[1]), keep, Long.parseLong(words[2]));
                    break;
                default:
                    throw new IllegalArgumentException(line);
            }
            answers.println("ok");
        }
        Runtime.getRuntime().halt(0); // nobody needs the files any more
    }
}
