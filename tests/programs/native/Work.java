import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.TreeMap;

/** Threads, maps, strings, garbage: the argument is the number of entries of each thread. Prints what they found. */
public final class Work {
    private static long work(long seed, int count) {
        HashMap<String, long[]> byName = new HashMap<>();
        TreeMap<Long, String> byNumber = new TreeMap<>();
        List<String> names = new ArrayList<>();
        long at = seed;
        for (int i = 0; i < count; i++) {
            at = at * 6364136223846793005L + 1442695040888963407L;
            String name = "entry " + (at >>> 40);
            names.add(name);
            byName.computeIfAbsent(name, unused -> new long[8])[i & 7] += at;
            byNumber.put(at, name);
        }
        long sum = byNumber.size();
        for (int i = 0; i < 2 * count; i++) {
            at = at * 6364136223846793005L + 1442695040888963407L;
            String name = names.get((int) ((at >>> 33) % count));
            sum = sum * 31 + byName.get(name)[i & 7];
            // Garbage, some of which lives for a while.
            byte[] garbage = new byte[200];
            garbage[i % 200] = (byte) sum;
            sum += garbage[7];
        }
        for (String name : byNumber.values()) {
            sum = sum * 31 + name.length();
        }
        return sum;
    }

    public static void main(String[] arguments) throws InterruptedException {
        int count = Integer.parseInt(arguments[0]);
        long[] found = new long[2];
        List<Thread> threads = new ArrayList<>();
        for (int n = 0; n < found.length; n++) {
            int mine = n;
            threads.add(new Thread(() -> found[mine] = work(mine + 1, count)));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        for (long sum : found) {
            System.out.println(sum);
        }
    }
}
