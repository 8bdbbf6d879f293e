package interop;

import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.Properties;

/** Certificates of the contract's folder, as JacORB wants them: one key store with the own key and the authority. */
final class Tls {
    private static final String PASSWORD = "interop";

    static void configure(Properties p, String folder, boolean server) {
        try {
            String store = keyStore(Path.of(folder)).toString();
            for (String kind : new String[] {"keystore", "truststore"}) {
                p.put("jacorb.security." + kind, store);
                p.put("jacorb.security." + kind + "_password", PASSWORD);
                // JacORB reads a file of this type only; Java tells by the contents what it is.
                p.put("jacorb.security." + kind + "_type", "JKS");
            }
        } catch (Exception e) {
            throw new IllegalStateException("no certificates in " + folder, e);
        }
        p.put("jacorb.security.support_ssl", "on");
        p.put("jacorb.ssl.socket_factory", "org.jacorb.security.ssl.sun_jsse.SSLSocketFactory");
        p.put("jacorb.ssl.server_socket_factory", "org.jacorb.security.ssl.sun_jsse.SSLServerSocketFactory");
        // Establish trust in target (20) and client (40), in hexadecimal.
        for (String what : new String[] {"supported", "required"}) {
            p.put("jacorb.security.ssl.client." + what + "_options", "60");
            p.put("jacorb.security.ssl.server." + what + "_options", "60");
        }
        if (server) p.put("jacorb.security.ssl.ssl_listener_port", "0");
    }

    private static Path keyStore(Path folder) throws Exception {
        CertificateFactory certificates = CertificateFactory.getInstance("X.509");
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        try (InputStream authority = Files.newInputStream(folder.resolve("authority.pem"));
             InputStream own = Files.newInputStream(folder.resolve("peer.pem"))) {
            Certificate trusted = certificates.generateCertificate(authority);
            store.setCertificateEntry("authority", trusted);
            String pem = Files.readString(folder.resolve("peer.key"));
            byte[] key = Base64.getMimeDecoder().decode(pem.replaceAll("-----[A-Z ]+-----", ""));
            store.setKeyEntry("peer", KeyFactory.getInstance("EC").generatePrivate(new PKCS8EncodedKeySpec(key)),
                    PASSWORD.toCharArray(), new Certificate[] {certificates.generateCertificate(own), trusted});
        }
        Path file = Files.createTempFile("interop", ".p12");
        file.toFile().deleteOnExit();
        try (OutputStream out = Files.newOutputStream(file)) {
            store.store(out, PASSWORD.toCharArray());
        }
        return file;
    }
}
