// rANS as CompressAI writes it, one stream a thread. Statuses and their order: docs/vectors.md.
//
//   c = x mod 65536;  s = the largest index with cdf[s] <= c
//   x = (cdf[s + 1] - cdf[s]) * floor(x / 65536) + c - cdf[s]
//   if x < 2^31: x = x * 2^32 + next word
//
// Whatever the bytes say, nothing outside the arrays is read or written: every word read is checked against the stream's
// end, every row against the table, and an escape is at most 9 nibbles long.

enum Status {
    OK = 0,
    BAD_LENGTH = 1,
    BAD_INITIAL_STATE = 2,
    BAD_TABLE = 3,
    TRUNCATED = 4,
    BAD_ESCAPE = 5,
    OVER_LONG = 6,
    BAD_FINAL_STATE = 7
};

struct Row {
    int first;   // of its entries in the array of all CDFs
    int length;  // entries, the closing 65536 included
    int offset;  // added to each symbol
    int valid;   // written by rans_check_rows
};

struct Stream {
    long long first_word;
    long long bytes;
    long long first_symbol;  // in indexes and symbols
    long long count;         // symbols to decode
    long long first_row;
    long long rows;
};

struct Result {
    int status;
    int decoded;   // symbols complete before the end
    int consumed;  // words read
};

struct Reader {
    const unsigned int* words;
    long long next;
    long long end;
    unsigned long long x;
};

// False where a word is needed and none is left.
static __device__ bool renormalise(Reader& reader) {
    if (reader.x >= 0x80000000ull) return true;
    if (reader.next >= reader.end) return false;
    reader.x = (reader.x << 32) | reader.words[reader.next];
    reader.next += 1;
    return true;
}

static __device__ bool read_nibble(Reader& reader, unsigned int& nibble) {
    nibble = (unsigned int)(reader.x & 15u);
    reader.x >>= 4;
    return renormalise(reader);
}

// What follows the last symbol of a row: how many nibbles, then these, the least significant first.
static __device__ Status read_escape(Reader& reader, long long last, long long& value) {
    unsigned int nibbles = 0;
    if (!read_nibble(reader, nibbles)) return TRUNCATED;
    if (nibbles > 8) return BAD_ESCAPE;  // 32 bits are 8 nibbles
    unsigned int raw = 0;
    for (unsigned int i = 0; i < nibbles; ++i) {
        unsigned int nibble = 0;
        if (!read_nibble(reader, nibble)) return TRUNCATED;
        raw |= nibble << (4 * i);
    }
    long long half = (long long)(raw >> 1);
    value = (raw & 1u) ? -half - 1 : half + last;
    return OK;
}

// The largest s with cdf[s] <= c; the row is valid, so cdf[0] = 0 <= c < 65536 = cdf[length - 1].
static __device__ int find_symbol(const unsigned int* cdf, int length, unsigned int c) {
    int low = 0;
    int high = length - 1;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (cdf[middle] <= c) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static __device__ Status decode_symbol(Reader& reader, const unsigned int* cdf, const Row& row, int& symbol) {
    const unsigned int* entries = cdf + row.first;
    unsigned int c = (unsigned int)(reader.x & 65535u);
    int s = find_symbol(entries, row.length, c);
    unsigned int start = entries[s];
    reader.x = (unsigned long long)(entries[s + 1] - start) * (reader.x >> 16) + c - start;
    if (!renormalise(reader)) return TRUNCATED;
    int last = row.length - 2;
    long long value = s;
    if (s == last) {
        Status status = read_escape(reader, last, value);
        if (status != OK) return status;
    }
    value += row.offset;
    if (value < -2147483648ll || value > 2147483647ll) return BAD_ESCAPE;
    symbol = (int)value;
    return OK;
}

// One row a thread: is it a CDF (0 = first < ... < last = 65536), and does every symbol fit 32 bits?
extern "C" __global__ void rans_check_rows(const unsigned int* cdf, long long entries, Row* rows, int count) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= count) return;
    long long first = rows[r].first;
    long long length = rows[r].length;
    bool valid = length >= 2 && length <= 65537 && first >= 0 && first + length <= entries;
    valid = valid && rows[r].offset <= 2147483647ll - (length - 2);
    valid = valid && cdf[first] == 0 && cdf[first + length - 1] == 65536;
    for (long long i = 1; valid && i < length; ++i) valid = cdf[first + i - 1] < cdf[first + i];
    rows[r].valid = valid ? 1 : 0;
}

// Thread t decodes stream order[t]: the host puts streams of like length side by side.
extern "C" __global__ void rans_decode(const unsigned int* words, const unsigned int* cdf, const Row* rows,
                                       const unsigned short* indexes, const Stream* streams, const int* order,
                                       int count, int* symbols, Result* results) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= count) return;
    const Stream stream = streams[order[t]];
    Status status = OK;
    long long done = 0;
    Reader reader = {words + stream.first_word, 0, stream.bytes / 4, 0};
    if (stream.bytes < 8 || stream.bytes % 4 != 0) {
        status = BAD_LENGTH;
    } else {
        reader.x = ((unsigned long long)reader.words[1] << 32) | reader.words[0];
        reader.next = 2;
        if (reader.x < 0x80000000ull || reader.x >= 0x8000000000000000ull) status = BAD_INITIAL_STATE;
    }
    while (status == OK && done < stream.count) {
        long long index = indexes[stream.first_symbol + done];
        if (index >= stream.rows || !rows[stream.first_row + index].valid) {
            status = BAD_TABLE;
            break;
        }
        int symbol = 0;
        status = decode_symbol(reader, cdf, rows[stream.first_row + index], symbol);
        if (status != OK) break;
        symbols[stream.first_symbol + done] = symbol;
        done += 1;
    }
    if (status == OK && reader.next < reader.end) {
        status = OVER_LONG;
    } else if (status == OK && reader.x != 0x80000000ull) {
        status = BAD_FINAL_STATE;
    }
    const Result result = {(int)status, (int)done, (int)reader.next};
    results[order[t]] = result;
}
