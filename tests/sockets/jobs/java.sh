# Java: an HTTP server and clients in one virtual machine, and channels with a selector.
# shellcheck shell=bash
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh" "$1"
cat > Job.java << 'EOF'
import com.sun.net.httpserver.HttpServer;
import java.net.*;
import java.nio.ByteBuffer;
import java.nio.channels.*;
import java.util.*;
import java.util.concurrent.*;

public class Job {
    static byte[] fetch(int port, int size) throws Exception {
        var connection = (HttpURLConnection) new URL("http://127.0.0.1:" + port + "/").openConnection();
        connection.setDoOutput(true);
        connection.getOutputStream().write(new byte[size]);
        try (var input = connection.getInputStream()) { return input.readAllBytes(); }
    }

    static long channels() throws Exception {
        var listener = ServerSocketChannel.open().bind(new InetSocketAddress("127.0.0.1", 0));
        var selector = Selector.open();
        var client = SocketChannel.open(listener.getLocalAddress());
        var server = listener.accept();
        server.configureBlocking(false);
        server.register(selector, SelectionKey.OP_READ);
        var echo = new Thread(() -> {
            try {
                var buffer = ByteBuffer.allocate(65536);
                while (true) {
                    selector.select();
                    selector.selectedKeys().clear();
                    buffer.clear();
                    int got = server.read(buffer);
                    if (got < 0) { server.close(); return; }
                    buffer.flip();
                    while (buffer.hasRemaining()) server.write(buffer);
                }
            } catch (Exception error) { System.out.println(error); }
        });
        echo.start();
        long sum = 0;
        for (int i = 1; i <= 300; i++) {
            client.write(ByteBuffer.wrap(new byte[i * 10]));
            var back = ByteBuffer.allocate(i * 10);
            while (back.hasRemaining() && client.read(back) >= 0) { }
            sum += back.position();
        }
        client.close();
        echo.join();
        return sum;
    }

    public static void main(String[] arguments) throws Exception {
        var server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 50);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.createContext("/", exchange -> {
            byte[] body = exchange.getRequestBody().readAllBytes();
            exchange.sendResponseHeaders(200, body.length * 2L);
            exchange.getResponseBody().write(new byte[body.length * 2]);
            exchange.close();
        });
        server.start();
        var pool = Executors.newFixedThreadPool(4);
        var all = new ArrayList<Future<byte[]>>();
        for (int i = 1; i <= 80; i++) {
            int size = i * 1000;
            all.add(pool.submit(() -> fetch(server.getAddress().getPort(), size)));
        }
        for (var one : all) System.out.println(one.get().length);
        System.out.println(channels());
        pool.shutdown();
        server.stop(0);
        System.exit(0);
    }
}
EOF
java Job.java
