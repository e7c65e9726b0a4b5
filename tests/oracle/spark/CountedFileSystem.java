import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.channels.FileLock;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/** A local disk whose changes below the folder of tests/support/counted_changes.py are counted as that module says; the
 *  thread that is about to make the chosen one waits forever, and the test kills the process. */
public class CountedFileSystem extends LocalFileSystem {
    private static final String FOLDER = System.getenv("LAKECORE_COUNTED_CHANGES");

    @Override
    public FSDataOutputStream create(
            Path path, FsPermission permission, boolean overwrite, int buffer, short replication, long block,
            Progressable progress) throws IOException {
        changes("create", path);
        return super.create(path, permission, overwrite, buffer, replication, block, progress);
    }

    @Override
    public boolean rename(Path from, Path to) throws IOException {
        changes("rename", to);
        return super.rename(from, to);
    }

    @Override
    public boolean delete(Path path, boolean recursive) throws IOException {
        changes("delete", path);
        return super.delete(path, recursive);
    }

    @Override
    public boolean mkdirs(Path path) throws IOException {
        changes("mkdirs", path);
        return super.mkdirs(path);
    }

    private static synchronized void changes(String what, Path path) throws IOException {
        String name = path.toUri().getPath();
        java.nio.file.Path armed = Paths.get(FOLDER, "armed"), fired = Paths.get(FOLDER, "fired");
        if (!name.startsWith(FOLDER + "/watched/") || !Files.exists(armed)) {
            return;
        }
        String[] chosen = Files.readString(armed).split(" ");
        try (RandomAccessFile log = new RandomAccessFile(FOLDER + "/changes", "rw"); FileLock lock = log.getChannel().lock()) {
            byte[] known = new byte[(int) log.length()];
            log.readFully(known);
            long number = new String(known, StandardCharsets.UTF_8).chars().filter(c -> c == '\n').count() + 1;
            String line = what + " " + name.substring((FOLDER + "/watched/").length());
            log.write((line + "\n").getBytes(StandardCharsets.UTF_8));
            String place = Files.exists(fired) ? Files.readString(fired) : null;
            String at = chosen[0];
            boolean isHere = at.chars().allMatch(Character::isDigit) ? number == Long.parseLong(at) : line.contains(at);
            if (place == null && isHere) {
                Files.writeString(fired, "jvm " + line);
            } else if (place == null || !(chosen[1].equals("all") || place.startsWith("jvm "))) {
                return;
            }
        }
        try {
            Thread.sleep(Long.MAX_VALUE);
        } catch (InterruptedException err) {
            Runtime.getRuntime().halt(137);
        }
    }
}
