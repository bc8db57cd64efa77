// SPDX-License-Identifier: MIT

import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import net.schmizz.sshj.SSHClient;
import net.schmizz.sshj.sftp.OpenMode;
import net.schmizz.sshj.sftp.RemoteFile;
import net.schmizz.sshj.sftp.SFTPClient;
import net.schmizz.sshj.transport.verification.PromiscuousVerifier;

/**
 * SFTP with sshj at the speed of the path: mvn dependency:copy-dependencies, then
 *
 *     java -cp 'target/dependency/*' Sftp.java [--stock] [--bdp BYTES] [--key FILE] [--accept-any-host] get|put USER@HOST:REMOTE LOCAL
 *
 * The window of a download, and what it asks for at once, is twice what "autobuf explain" says that the path holds. The
 * window of an upload is the server's, 2 MiB a channel: it goes over as many channels of one connection as hold that much.
 */
public class Sftp {
    static final long CHANNEL_BYTES = 2 << 20;
    static final long MOST_WINDOW_BYTES = 64 << 20;
    static final int MOST_CHANNELS = 10; // sshd_config(5): MaxSessions
    static final int BLOCK_BYTES = 32 << 10; // what every server takes in a request

    /** What the path holds; 0: not known. */
    static long bdpBytes(String host) throws IOException {
        long most = 0;
        try (InputStream said = new ProcessBuilder("autobuf", "explain", "--json", host)
                .redirectError(ProcessBuilder.Redirect.INHERIT).start().getInputStream()) {
            Matcher found = Pattern.compile("\"[rt]x_bdp_bytes\": *(\\d+)").matcher(new String(said.readAllBytes()));
            while (found.find()) {
                most = Math.max(most, Long.parseLong(found.group(1)));
            }
        } catch (IOException absent) {
            System.err.println(absent.getMessage());
        }
        return most;
    }

    static long copy(InputStream from, OutputStream to, long length) throws IOException {
        byte[] block = new byte[BLOCK_BYTES];
        long copied = 0;
        for (int n; copied < length && (n = from.read(block, 0, (int) Math.min(block.length, length - copied))) > 0; copied += n) {
            to.write(block, 0, n);
        }
        return copied;
    }

    static void get(SSHClient ssh, String remote, String local, long bytes) throws IOException {
        try (SFTPClient sftp = ssh.newSFTPClient(); RemoteFile far = sftp.open(remote);
                InputStream from = far.new ReadAheadRemoteFileInputStream((int) (bytes / BLOCK_BYTES));
                OutputStream to = new FileOutputStream(local)) {
            copy(from, to, Long.MAX_VALUE);
        }
    }

    static void putPart(SFTPClient sftp, RemoteFile far, String local, long start, long length) throws IOException {
        try (FileInputStream from = new FileInputStream(local)) {
            from.getChannel().position(start);
            OutputStream to = far.new RemoteFileOutputStream(start, (int) (CHANNEL_BYTES / BLOCK_BYTES));
            if (copy(from, to, length) < length) {
                throw new IOException("the file became shorter");
            }
            to.flush();
        }
        far.close(); // before the channel: here a server tells of what it could not write
        sftp.close();
    }

    static void put(SSHClient ssh, String remote, String local, long bytes) throws Exception {
        long size;
        try (FileInputStream file = new FileInputStream(local)) {
            size = file.getChannel().size();
        }
        long wanted = (Math.min(bytes, size) + CHANNEL_BYTES - 1) / CHANNEL_BYTES;
        int channels = (int) Math.max(1, Math.min(wanted, MOST_CHANNELS));
        long part = (size + channels - 1) / channels;
        SFTPClient first = ssh.newSFTPClient();
        RemoteFile far = first.open(remote, EnumSet.of(OpenMode.WRITE, OpenMode.CREAT, OpenMode.TRUNC));
        List<Callable<Void>> parts = new ArrayList<>();
        for (int i = 0; i < channels; i++) {
            long start = i * part;
            parts.add(() -> {
                SFTPClient sftp = start == 0 ? first : ssh.newSFTPClient();
                putPart(sftp, start == 0 ? far : sftp.open(remote, EnumSet.of(OpenMode.WRITE)), local, start, Math.min(part, size - start));
                return null;
            });
        }
        ExecutorService threads = Executors.newFixedThreadPool(channels);
        try {
            for (Future<Void> done : threads.invokeAll(parts)) {
                done.get();
            }
        } finally {
            threads.shutdown();
        }
    }

    static void run(String[] args) throws Exception {
        boolean stock = false;
        boolean acceptAny = false;
        long bdp = -1;
        File folder = new File(System.getenv("HOME"), ".ssh");
        String key = new File(folder, "id_ed25519").getPath();
        int at = 0;
        for (; at < args.length && args[at].startsWith("--"); at++) {
            switch (args[at]) {
                case "--stock": stock = true; break;
                case "--accept-any-host": acceptAny = true; break;
                case "--bdp": bdp = Long.parseLong(args[++at]); break;
                case "--key": key = args[++at]; break;
                default: throw new IllegalArgumentException(args[at]);
            }
        }
        Matcher place = Pattern.compile("([^@]+)@([^:]+):(.+)").matcher(args.length == at + 3 ? args[at + 1] : "");
        if (!place.matches() || !args[at].matches("get|put")) {
            throw new IllegalArgumentException("get|put USER@HOST:REMOTE LOCAL");
        }
        boolean get = args[at].equals("get");
        String remote = place.group(3);
        String local = args[at + 2];
        try (SSHClient ssh = new SSHClient()) {
            if (acceptAny) {
                ssh.addHostKeyVerifier(new PromiscuousVerifier());
            } else {
                ssh.loadKnownHosts(new File(folder, "known_hosts"));
            }
            ssh.connect(place.group(2));
            ssh.authPublickey(place.group(1), key);
            if (stock) {
                try (SFTPClient sftp = ssh.newSFTPClient()) {
                    sftp.getFileTransfer().setPreserveAttributes(false);
                    if (get) {
                        sftp.get(remote, local);
                    } else {
                        sftp.put(local, remote);
                    }
                }
                return;
            }
            long bytes = Math.max(CHANNEL_BYTES, Math.min(2 * (bdp < 0 ? bdpBytes(place.group(2)) : bdp), MOST_WINDOW_BYTES));
            ssh.getConnection().setWindowSize(bytes);
            if (get) {
                get(ssh, remote, local, bytes);
            } else {
                put(ssh, remote, local, bytes);
            }
        }
    }

    public static void main(String[] args) {
        try {
            run(args);
        } catch (Exception failed) {
            System.err.println(failed.getMessage());
            System.exit(1);
        }
    }
}
