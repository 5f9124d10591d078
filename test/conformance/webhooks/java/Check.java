import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HexFormat;

/** Runs the documented snippet on vectors: a line `secret,header,body,now` each, the first three in hex. */
public final class Check {
  public static void main(String[] args) throws Exception {
    var lines = new BufferedReader(new InputStreamReader(System.in, UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] fields = line.split(",", -1);
      byte[] body = HexFormat.of().parseHex(fields[2]);
      System.out.println(Webhook.verify(text(fields[0]), text(fields[1]), body, Long.parseLong(fields[3])));
    }
  }

  private static String text(String hex) {
    return new String(HexFormat.of().parseHex(hex), UTF_8);
  }
}
