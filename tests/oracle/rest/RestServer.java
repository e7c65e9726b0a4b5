import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import javax.net.ServerSocketFactory;
import okhttp3.mockwebserver.MockWebServer;
import org.apache.paimon.rest.RESTCatalogServer;
import org.apache.paimon.rest.auth.BearTokenAuthProvider;
import org.apache.paimon.rest.responses.ConfigResponse;

/** Paimon's REST server of its tests: each line of the input is a directory to serve, each line of the output its address. The warehouse has the name of the directory. */
public class RestServer {
    public static void main(String[] args) throws Exception {
        List<RESTCatalogServer> servers = new ArrayList<>(); // a server that nobody holds could be collected
        java.io.PrintStream out = System.out;
        System.setOut(System.err); // the server prints
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line; (line = in.readLine()) != null; ) {
            ConfigResponse config =
                    new ConfigResponse(Collections.singletonMap("prefix", "lake house"), Collections.emptyMap());
            RESTCatalogServer server =
                    new RESTCatalogServer(line, new BearTokenAuthProvider(args[0]), config, new java.io.File(line).getName());
            java.lang.reflect.Field web = RESTCatalogServer.class.getDeclaredField("server");
            web.setAccessible(true);
            ((MockWebServer) web.get(server)).setServerSocketFactory(new AtOnce());
            server.start();
            servers.add(server);
            out.println(server.getUrl());
            out.flush();
        }
        System.exit(0);
    }
    /** Sockets that send at once: else each answer, whose head and body are sent one by one, waits 40 ms for the client's kernel. */
    static class AtOnce extends ServerSocketFactory {
        @Override public ServerSocket createServerSocket() throws IOException {
            return new ServerSocket() {
                @Override public Socket accept() throws IOException {
                    Socket socket = super.accept();
                    socket.setTcpNoDelay(true);
                    return socket;
                }
            };
        }
        @Override public ServerSocket createServerSocket(int port) throws IOException { throw new IOException("not used"); }
        @Override public ServerSocket createServerSocket(int port, int backlog) throws IOException { throw new IOException("not used"); }
        @Override public ServerSocket createServerSocket(int port, int backlog, InetAddress address) throws IOException { throw new IOException("not used"); }
    }
}
