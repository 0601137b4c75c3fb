/*
 * native-search PREFIX HEAD BITS [BLOCKS]: searches the blocks of 65,536 nonces from HEAD on for shares, 16 nonces
 * at a time with AVX-512, 8 with AVX2. The rule is in shared/crypto/pow.ts, the layout in sha256-simd.ts: the
 * message is PREFIX ":" HEAD and four hex digits, of which W12 alone varies within a block.
 *
 * Writes a line "share NONCE" for each candidate (of BITS beyond 32 it sees 32), and after a block that has some, or
 * every 250 ms, "at HEAD HASHES": all before HEAD is searched, HASHES of it since the last such line. It ends after
 * BLOCKS blocks, or with "end HASHES" after the last block of HEAD's range, or when nobody reads what it writes.
 */
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__AVX512F__)
#define LANES 16
#define ROTR(x, n) ((vec)_mm512_ror_epi32((__m512i)(x), n))
#define LOGIC(x, y, z, table) ((vec)_mm512_ternarylogic_epi32((__m512i)(x), (__m512i)(y), (__m512i)(z), table))
#define XOR3(x, y, z) LOGIC(x, y, z, 0x96)
#define CH(x, y, z) LOGIC(x, y, z, 0xca)
#define MAJ(x, y, z) LOGIC(x, y, z, 0xe8)
#define ANY_ZERO(x) (_mm512_testn_epi32_mask((__m512i)(x), (__m512i)(x)) != 0)
#elif defined(__AVX2__)
#define LANES 8
#define ROTR(x, n) (((x) >> (n)) | ((x) << (32 - (n))))
#define XOR3(x, y, z) ((x) ^ (y) ^ (z))
#define CH(x, y, z) ((z) ^ ((x) & ((y) ^ (z))))
#define MAJ(x, y, z) (((x) & (y)) | ((z) & ((x) | (y))))
#define ANY_ZERO(x) (_mm256_movemask_epi8(_mm256_cmpeq_epi32((__m256i)(x), _mm256_setzero_si256())) != 0)
#else
#error "no vectors wider than WebAssembly's"
#endif

typedef uint32_t vec __attribute__((vector_size(LANES * 4)));

/* FIPS 180-4, §4.1.2, for one word and for vectors alike */
#define SIGMA_0(x) XOR3(ROTR(x, 2), ROTR(x, 13), ROTR(x, 22))
#define SIGMA_1(x) XOR3(ROTR(x, 6), ROTR(x, 11), ROTR(x, 25))
#define sigma_0(x) XOR3(ROTR(x, 7), ROTR(x, 18), (x) >> 3)
#define sigma_1(x) XOR3(ROTR(x, 17), ROTR(x, 19), (x) >> 10)

/* §4.2.2 and §5.3.3: sha256-simd.ts has them, and the compiler gets them from there. */
static const uint32_t K[64] = {K_WORDS}, H0[8] = {H_WORDS};

static vec splat(uint32_t word) { return (vec){0} + word; }

/* Whether W[t] depends on W12 (§6.2.2, step 1). */
#define VARIES(t) ((t) == 12 || (t) == 19 || (t) == 21 || (t) == 23 || (t) >= 25)

/* What a block has in common. `words`: W[t] + K[t] if W[t] is fixed, else the sum of its fixed terms; `state`: a to h
 * after round 12, where a and e still lack W12. */
typedef struct { uint32_t words[64], state[8]; } Block;

/* Lane 0 alone is used: once for 65,536 nonces it costs nothing, and the formulas stand here once. */
static void prepare_block(Block *block, const char text[48]) {
  vec w[64] = {{0}}, s[8];
  for (int i = 0; i < 48; i++) w[i / 4] |= splat((uint32_t)(uint8_t)text[i] << (24 - i % 4 * 8));
  w[13] = splat(0x80000000);
  w[15] = splat(52 * 8);
  for (int t = 16; t < 64; t++) {
    if (!VARIES(t - 2)) w[t] += sigma_1(w[t - 2]);
    if (!VARIES(t - 7)) w[t] += w[t - 7];
    if (!VARIES(t - 15)) w[t] += sigma_0(w[t - 15]);
    if (!VARIES(t - 16)) w[t] += w[t - 16];
  }
  for (int i = 0; i < 8; i++) s[i] = splat(H0[i]);
  for (int t = 0; t <= 12; t++) {
    vec t1 = s[7] + SIGMA_1(s[4]) + CH(s[4], s[5], s[6]) + w[t] + K[t], t2 = SIGMA_0(s[0]) + MAJ(s[0], s[1], s[2]);
    for (int i = 7; i > 0; i--) s[i] = s[i - 1];
    s[4] += t1;
    s[0] = t1 + t2;
  }
  for (int t = 0; t < 64; t++) block->words[t] = w[t][0] + (VARIES(t) ? 0 : K[t]);
  for (int i = 0; i < 8; i++) block->state[i] = s[i][0];
}

/* Word 0 of the digests, for as many nonces as there are lanes. */
static inline __attribute__((always_inline)) vec hash_tails(const Block *block, vec tails) {
  const uint32_t *s = block->state;
  vec w[16], a = tails + s[0], b = splat(s[1]), c = splat(s[2]), d = splat(s[3]);
  vec e = tails + s[4], f = splat(s[5]), g = splat(s[6]), h = splat(s[7]);
  w[12] = tails;
#pragma GCC unroll 64
  for (int t = 13; t < 64; t++) {
    vec word = splat(block->words[t]);
    if (VARIES(t)) {
      if (VARIES(t - 2)) word += sigma_1(w[(t - 2) & 15]);
      if (VARIES(t - 7)) word += w[(t - 7) & 15];
      if (VARIES(t - 15)) word += sigma_0(w[(t - 15) & 15]);
      if (VARIES(t - 16)) word += w[t & 15];
      w[t & 15] = word;
      word += K[t];
    }
    vec t1 = h + word + SIGMA_1(e) + CH(e, f, g), t2 = SIGMA_0(a) + MAJ(a, b, c);
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  return a + H0[0];
}

static uint32_t two_digits(int i) { return (uint32_t)("0123456789abcdef"[i >> 4] << 8 | "0123456789abcdef"[i & 15]); }

/* Every candidate of a block, as lines; their number is returned. */
static int search_block(const Block *block, const char *head, uint32_t mask, const vec *low) {
  int hits = 0;
  for (int high = 0; high < 256; high++) {
    vec first = splat(two_digits(high) << 16);
    for (int i = 0; i < 256 / LANES; i++) {
      vec rest = hash_tails(block, first | low[i]) & splat(mask);
      if (!ANY_ZERO(rest)) continue;
      for (int lane = 0; lane < LANES; lane++)
        if (rest[lane] == 0) printf("share %.15s%02x%02x\n", head, high, i * LANES + lane), hits++;
    }
  }
  return hits;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int count, char **arguments) {
  if (count < 4 || strlen(arguments[1]) != 32 || strlen(arguments[2]) != 15) return 2;
  char text[49];
  snprintf(text, sizeof text, "%s:%s", arguments[1], arguments[2]);
  char *head = text + 33, *number = head + 9;
  int bits = atoi(arguments[3]);
  uint32_t mask = bits == 0 ? 0 : bits >= 32 ? 0xffffffff : ~(0xffffffff >> bits);
  vec low[256 / LANES];
  for (int i = 0; i < 256; i++) low[i / LANES][i % LANES] = two_digits(i);
  long blocks = count > 4 ? atol(arguments[4]) : -1, hashes = 0;
  double told = seconds();
  for (unsigned long at = strtoul(number, NULL, 16); blocks != 0; blocks--) {
    Block block;
    prepare_block(&block, text);
    int hits = search_block(&block, head, mask, low);
    hashes += 65536;
    if (++at > 0xffffff) return printf("end %ld\n", hashes) < 0;
    snprintf(number, 7, "%06lx", at);
    if (hits == 0 && seconds() - told < 0.25) continue;
    if (printf("at %s %ld\n", head, hashes) < 0 || fflush(stdout) != 0) return 1;
    hashes = 0;
    told = seconds();
  }
  return 0;
}
