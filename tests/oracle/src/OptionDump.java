import java.io.File;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import org.apache.paimon.options.ConfigOption;
import org.apache.paimon.options.FallbackKey;

/** Every option that a class of Paimon's jar declares as a static field; `unread`: classes called Options that cannot be loaded here. */
class OptionDump {
    static Map<String, Object> all() throws Exception {
        String jar = new File(ConfigOption.class.getProtectionDomain().getCodeSource().getLocation().toURI()).getPath();
        Map<String, Object> found = new TreeMap<>();
        List<String> unread = new ArrayList<>();
        try (ZipFile zip = new ZipFile(jar)) {
            for (ZipEntry entry : Collections.list(zip.entries())) {
                String name = entry.getName();
                if (!name.endsWith(".class") || !name.startsWith("org/apache/paimon/") || name.contains("/shade/")) continue;
                String last = name.substring(name.lastIndexOf('/') + 1, name.length() - 6);
                try {
                    List<Map<String, Object>> options = of(name.substring(0, name.length() - 6).replace('/', '.'));
                    if (!options.isEmpty()) found.put(last, options);
                } catch (LinkageError e) { // over a library that is not there (Flink, RocksDB)
                    if (last.endsWith("Options")) unread.add(last);
                }
            }
        }
        Collections.sort(unread);
        found.put("unread", unread);
        return found;
    }

    private static List<Map<String, Object>> of(String name) throws Exception {
        List<Map<String, Object>> options = new ArrayList<>();
        for (Field field : Class.forName(name, false, OptionDump.class.getClassLoader()).getDeclaredFields()) {
            if (!Modifier.isStatic(field.getModifiers()) || field.getType() != ConfigOption.class) continue;
            field.setAccessible(true);
            ConfigOption<?> option = (ConfigOption<?>) field.get(null);
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("key", option.key());
            one.put("default", option.defaultValue() == null ? null : String.valueOf(option.defaultValue()));
            List<String> old = new ArrayList<>();
            for (FallbackKey key : option.fallbackKeys()) old.add(key.getKey());
            one.put("old", old);
            options.add(one);
        }
        return options;
    }
}
