package org.apache.paimon.fs.local;

import java.io.File;
import java.io.FileInputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import org.apache.paimon.fs.SeekableInputStream;
import org.apache.paimon.fs.VectoredReadable;

/**
 * The inner class stands in front of Paimon's class of this name, with a buffer: decoders of Avro ask for a few bytes at a
 * time, and a read of a small table made 70,000 system calls, which was most of its time. Bytes and positions are the same.
 * The outer one only gives the name; its class file is deleted, so that Paimon's own is loaded.
 */
class LocalFileIO {
public static class LocalSeekableInputStream extends SeekableInputStream implements VectoredReadable {
    private static final int SIZE = 1 << 14;
    private final FileInputStream in;
    private final FileChannel channel;
    private final byte[] buffer = new byte[SIZE];
    /** The buffer holds bytes [start, start + filled) of the file; `at`: the next one to give. */
    private long start;
    private int filled;
    private int at;

    public LocalSeekableInputStream(File file) throws FileNotFoundException {
        in = new FileInputStream(file);
        channel = in.getChannel();
    }

    @Override
    public void seek(long position) throws IOException {
        if (position >= start && position <= start + filled) {
            at = (int) (position - start);
            return;
        }
        start = position;
        filled = at = 0;
    }

    @Override
    public long getPos() {
        return start + at;
    }

    @Override
    public int read() throws IOException {
        return at < filled || fill() ? buffer[at++] & 0xff : -1;
    }

    @Override
    public int read(byte[] target, int offset, int length) throws IOException {
        if (length == 0) return 0;
        if (at == filled && length >= SIZE) {
            int count = channel.read(ByteBuffer.wrap(target, offset, length), getPos());
            seek(getPos() + Math.max(count, 0));
            return count;
        }
        if (at == filled && !fill()) return -1;
        int count = Math.min(length, filled - at);
        System.arraycopy(buffer, at, target, offset, count);
        at += count;
        return count;
    }

    private boolean fill() throws IOException {
        start += at;
        at = 0;
        filled = Math.max(channel.read(ByteBuffer.wrap(buffer), start), 0);
        return filled > 0;
    }

    @Override
    public void close() throws IOException {
        in.close();
    }

    @Override
    public int pread(long position, byte[] target, int offset, int length) throws IOException {
        return channel.read(ByteBuffer.wrap(target, offset, length), position);
    }
}
}
