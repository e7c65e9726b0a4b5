import java.time.Instant;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.paimon.rest.auth.DLFDefaultSigner;
import org.apache.paimon.rest.auth.DLFOpenApiSigner;
import org.apache.paimon.rest.auth.DLFRequestSigner;
import org.apache.paimon.rest.auth.DLFToken;
import org.apache.paimon.rest.auth.RESTAuthParameter;

/** What Java's signers of DLF make of a few requests, one JSON object a line: tests/lakecore/catalog/testdata/dlf_vectors.jsonl. */
public class DlfVectors {
    public static void main(String[] args) throws Exception {
        Map<String, String> query = new LinkedHashMap<>();
        query.put("pageToken", "a b&c=d");
        query.put("maxResults", "");
        query.put("warehouse", "l\u00e4ke");
        String[][] requests = {
            {"GET", "/v1/config", "", "no token"},
            {"GET", "/v1/lake+house/databases/d%2Fb/tables", "", null},
            {"POST", "/v1/databases", "{\"name\": \"d\u00e9\"}", "token/+="},
            {"DELETE", "/v1/lake/databases/d/tables/t%24branch_b", "", null},
        };
        for (String algorithm : new String[] {"default", "openapi"}) {
            for (String[] one : requests) {
                for (boolean withQuery : new boolean[] {false, true}) {
                    Map<String, String> parameters = withQuery ? query : Collections.emptyMap();
                    DLFRequestSigner signer =
                            algorithm.equals("default") ? new DLFDefaultSigner("cn-hangzhou") : new DLFOpenApiSigner();
                    DLFToken token = new DLFToken("key id", "s\u00e9cret", one[3], null);
                    RESTAuthParameter request = new RESTAuthParameter(one[1], parameters, one[0], one[2]);
                    Instant now = Instant.ofEpochMilli(1704067205123L);
                    Map<String, String> headers = signer.signHeaders(one[2], now, one[3], "dlf.example:8080");
                    String authorization = signer.authorization(request, token, "dlf.example:8080", headers);
                    Map<String, Object> out = new LinkedHashMap<>();
                    out.put("algorithm", algorithm);
                    out.put("request", one);
                    out.put("query", parameters);
                    headers.put("Authorization", authorization);
                    out.put("headers", new TreeMap<>(headers));
                    System.out.println(org.apache.paimon.utils.JsonSerdeUtil.toFlatJson(out));
                }
            }
        }
    }
}
