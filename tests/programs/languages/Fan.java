// As fan.py: three awk processes over pipes, two threads over loopback.
import java.io.*;
import java.net.*;

public class Fan {
    static BufferedReader in(InputStream s) {
        return new BufferedReader(new InputStreamReader(s));
    }

    static PrintWriter out(OutputStream s) {
        return new PrintWriter(new OutputStreamWriter(s), true);
    }

    static long byProcesses() throws Exception {
        long total = 0;
        Process[] p = new Process[3];
        BufferedReader[] back = new BufferedReader[3];
        PrintWriter[] to = new PrintWriter[3];
        for (int i = 0; i < 3; i++) {
            p[i] = new ProcessBuilder("sh", "-c",
                "while read n; do echo $((n * n)); done").start();
            back[i] = in(p[i].getInputStream());
            to[i] = out(p[i].getOutputStream());
        }
        for (int i = 0; i < 60; i++) {
            to[i % 3].println(i);
            total += Long.parseLong(back[i % 3].readLine());
        }
        for (int i = 0; i < 3; i++) {
            to[i].close();
            if (p[i].waitFor() != 0)
                throw new Exception("status");
        }
        return total;
    }

    static long byThreads() throws Exception {
        long total = 0;
        try (ServerSocket server = new ServerSocket(0, 5,
                InetAddress.getLoopbackAddress())) {
            Thread t = new Thread(() -> {
                try (Socket s = server.accept()) {
                    BufferedReader from = in(s.getInputStream());
                    PrintWriter to = out(s.getOutputStream());
                    for (String n; (n = from.readLine()) != null;)
                        to.println(Long.parseLong(n) * Long.parseLong(n));
                } catch (IOException e) {
                    System.out.println(e);
                }
            });
            t.start();
            try (Socket s = new Socket(server.getInetAddress(),
                    server.getLocalPort())) {
                BufferedReader from = in(s.getInputStream());
                PrintWriter to = out(s.getOutputStream());
                for (int i = 0; i < 60; i++) {
                    to.println(i);
                    total += Long.parseLong(from.readLine());
                }
            }
            t.join();
        }
        return total;
    }

    public static void main(String[] args) throws Exception {
        System.out.println("processes " + byProcesses());
        System.out.println("threads " + byThreads());
        System.exit(7);
    }
}
